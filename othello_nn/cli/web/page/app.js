// The page: keeps what the server said last, draws it, and passes on what the user wants.

import { Board, NAMES, discs } from "./board.js";
import { NewGame, PasteDialog, fill } from "./dialogs.js";
import { Editor } from "./editor.js";
import { Graph } from "./graph.js";
import { element, numberOf, showClocks, showLook, showMoves, showPlayers, showThoughts, statusText } from "./panels.js";
import { Socket } from "./socket.js";

const $ = (id) => document.getElementById(id);
const NOTE_MS = 4500, MOST_KEPT = 400;

const remember = {
  get(key, otherwise) {
    try {
      return JSON.parse(localStorage.getItem(`othello.${key}`)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  set(key, value) {
    try {
      localStorage.setItem(`othello.${key}`, JSON.stringify(value));
    } catch { /* a browser that keeps nothing */ }
  },
};

let state = null, welcome = null, analysis = null, look = null, hint = null, stateAt = 0, begun = false;
const values = new Map(); // by mind and position, the deepest
const curve = new Map(); // by mind and the moves that lead to a position: its value for black

const board = new Board($("board"), choose);
const graph = new Graph($("graph"), goto);
const newGame = new NewGame(remember, start);
const pasting = new PasteDialog((text) => socket.send("paste", { text }));
const editor = new Editor(board, (position) => socket.send("new", { ...seats(), start: position, paused: true }), leaveEditor);
const socket = new Socket(hear, greet, (open, reason) => {
  $("connection").hidden = open;
  $("connection").textContent = reason || "Connecting …";
});

// --- what the server says --------------------------------------------------------------------------------------------

function hear(message) {
  ({ welcome: hearWelcome, state: hearState, values: hearValues, analysis: hearAnalysis, look: hearLook, hint: hearHint, note: hearNote, file: hearFile, preparing: hearPreparing })[message.type]?.(message);
}

function hearWelcome(message) {
  welcome = message;
  newGame.offer(message);
  const minds = message.minds.map((name) => [name, name]);
  fill($("mind"), minds, remember.get("mind", message.minds[0]));
  fill($("other"), [["", "compare with …"], ...minds], remember.get("other", ""));
  greet();
}

// A new connection: the server is told the game that this page shows, or the one in the link, or a first one.
function greet() {
  if (!welcome || socket.socket.readyState !== WebSocket.OPEN) return;
  if (!begun) {
    begun = true;
    $("values").checked = remember.get("values", false);
    const kept = sessionGame();
    const link = location.hash.length > 1 && location.hash !== kept?.hash;
    if (kept && !link) socket.send("new", kept.game);
    else socket.send("new", { ...firstGame(), link: link ? location.hash.slice(1) : "" });
  } else if (state) {
    socket.send("new", savedGame());
  }
  sendMinds();
}

function firstGame() {
  const { black, white } = newGame.choice();
  return { black, white };
}

function savedGame() {
  const clocks = state.clocks;
  return {
    ...seats(), start: state.start, moves: state.transcript, ply: state.ply, paused: state.paused,
    clock: clocks?.seconds ?? 0, black_left: clocks?.black ?? 0, white_left: clocks?.white ?? 0,
  };
}

function sessionGame() {
  try {
    return JSON.parse(sessionStorage.getItem("othello.game"));
  } catch {
    return null;
  }
}

function hearState(message) {
  const before = state;
  state = message;
  stateAt = performance.now();
  if (wanted === state.ply || state.transcript !== before?.transcript) wanted = null;
  if (hint && hint.position !== state.position) hint = null;
  if (look && look.position !== state.position) look = null;
  if (analysis && (analysis.transcript !== state.transcript || analysis.start !== state.start)) analysis = null;
  // Clocks, pauses and analyses are no reason to throw away what is being edited; another position or game is.
  const other = ["start", "transcript", "position"].some((key) => state[key] !== before?.[key]);
  if (editor.active && ((other && (state.paused || !waits)) || state.start === editor.asked)) editor.close();
  const hash = `#${state.link}`;
  history.replaceState(null, "", hash.length > 1 ? hash : location.pathname);
  try {
    sessionStorage.setItem("othello.game", JSON.stringify({ hash, game: savedGame() }));
  } catch { /* a browser that keeps nothing */ }
  announce(before);
  draw();
}

// Deeper results never give way to shallower ones.
function hearValues(message) {
  const key = `${message.mind} ${message.position}`, before = values.get(key);
  const weight = (one) => Object.values(one.moves).reduce((sum, move) => sum + (move.exact ? 100 : move.depth), 0);
  if (before && weight(before) > weight(message)) return;
  values.delete(key);
  values.set(key, message);
  if (values.size > MOST_KEPT) values.delete(values.keys().next().value);
  if (state?.position === message.position) {
    const best = message.moves[message.best];
    curve.set(`${message.mind} ${prefix(state.ply)}`, state.black_to_move ? best.value : -best.value);
    drawThoughts();
    drawGraph();
  }
}

function hearAnalysis(message) {
  if (!state || message.transcript !== state.transcript || message.start !== state.start) return;
  analysis = message;
  draw();
}

function hearLook(message) {
  if (state?.position !== message.position) return;
  look = message;
  draw();
}

function hearHint(message) {
  if (state?.position !== message.position) return;
  hint = message;
  const score = message.score === null ? "" : `, ${discs({ value: message.score, exact: message.exact })}`;
  note({ text: `${message.move}${score}${message.line.length > 1 ? `: ${message.line.slice(0, 6).join(" ")}` : ""}` });
  draw();
}

function hearNote(message) {
  if (!pasting.hear(message)) note(message);
}

function hearPreparing({ player }) {
  $("preparing").hidden = !player;
  $("preparing").textContent = `Getting ${player} ready; the very first time this takes a while …`;
}

function hearFile(message) {
  const kind = message.name.endsWith(".svg") ? "image/svg+xml" : "text/plain";
  const address = URL.createObjectURL(new Blob([message.text], { type: kind }));
  element("a", { href: address, download: message.name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// --- drawing ---------------------------------------------------------------------------------------------------------

const prefix = (ply) => `${state.start} ${state.moves.slice(0, ply).join("")}`;
const minds = () => [$("mind").value, $("other").value].filter((name, i, all) => name && all.indexOf(name) === i);

function draw() {
  if (!state || editor.active) return;
  board.show(state.board, { legal: state.legal, last: state.last, blackToMove: state.black_to_move });
  drawThoughts();
  drawPlayers();
  drawGame();
}

// What changes with every word of the server.
function drawThoughts() {
  if (editor.active) return;
  const shown = $("values").checked ? minds().map((mind) => values.get(`${mind} ${state.position}`)).filter(Boolean) : [];
  const looked = $("look").checked ? look : null;
  board.mark({ values: shown, hint: hint?.move ?? null, look: looked });
  showThoughts($("thoughts"), shown, state.black_to_move ? "black" : "white");
  showLook($("looks"), looked, (names) => board.spot(names));
}

function drawPlayers() {
  showPlayers(state, (player, level) => newGame.rating(player, level));
  showClocks(state.clocks, stateAt);
  $("status").textContent = statusText(state);
  $("opening").textContent = state.opening ? `${state.opening} opening` : "";
  $("opening").hidden = !state.opening;
  $("undo").disabled = !state.can_undo;
  $("redo").disabled = !state.can_redo;
  $("hint").disabled = !state.legal.length;
  const people = state.seats.black.person || state.seats.white.person, both = state.seats.black.person && state.seats.white.person;
  $("resign").hidden = state.over || !people || !state.moves.length;
  $("pause").hidden = state.over || both || (people && !state.paused);
  $("pause").textContent = state.paused ? "Go on" : "Pause";
}

const judgements = () => minds().map((mind) => analysis?.minds.find((one) => one.mind === mind));

function drawGraph() {
  const judged = judgements();
  const curves = minds().map((mind, k) => ({ points: points(mind, judged[k]) }));
  graph.show({ plies: state.moves.length, moves: numberOf(state, state.moves.length), ply: state.ply, turning: judged[0]?.turning ?? null, curves });
}

function drawGame() {
  const [first, second] = judgements();
  const rows = new Map((first?.rows ?? []).map((row) => [row.ply, row]));
  showMoves($("moves"), state, rows, first?.turning ?? null, goto);
  drawGraph();
  $("where").textContent = `${numberOf(state, state.ply)} of ${numberOf(state, state.moves.length)}`;
  $("first").disabled = $("back").disabled = !state.ply;
  $("last").disabled = $("forth").disabled = state.ply >= state.moves.length;
  const running = state.analyzes;
  $("analyze").textContent = running ? "Stop" : "Analyse";
  $("analyze").disabled = !state.moves.length;
  $("progress").hidden = !running;
  const parts = (analysis?.minds ?? []).map((one) => (one.total ? one.done / one.total : 0));
  $("progress").value = parts.length ? parts.reduce((sum, part) => sum + part, 0) / parts.length : 0;
  $("losses").hidden = !rows.size;
  if (rows.size) $("losses").textContent = `Given away, by ${first.mind}: black ${first.losses.black.toFixed(1)}, white ${first.losses.white.toFixed(1)} discs`;
  const stories = state.over ? [first?.story, second?.story && second.story !== first?.story ? `${second.mind}: ${second.story}` : ""].filter(Boolean) : [];
  $("story").hidden = !stories.length;
  $("story").replaceChildren(...stories.map((text) => element("span", { textContent: text })));
}

// A curve: what analysis says of each position, else what was seen while playing; the end is the result.
function points(mind, judged) {
  const rows = new Map((judged?.rows ?? []).map((row) => [row.ply, row])), found = [];
  for (let ply = 0; ply <= state.moves.length; ply++) {
    const row = rows.get(ply), before = rows.get(ply - 1), seen = curve.get(`${mind} ${prefix(ply)}`);
    const ended = ply === state.moves.length && state.margin !== null && !state.result.includes("resigns") && !state.result.includes("time");
    const value = ended ? state.margin : row ? row.best_value : before && ply === state.moves.length ? before.value : seen;
    if (value !== undefined) found.push({ ply, value, mark: before?.mark ?? "" });
  }
  return found;
}

function announce(before) {
  const text = [];
  if (before && state.ply === before.ply + 1 + (state.passed ? 1 : 0) && state.last) text.push(`${state.passed === state.black_to_move ? "Black" : "White"} ${state.last}.`);
  if (state.passed) text.push(`${state.black_to_move ? "White" : "Black"} passes.`);
  if (state.over && !before?.over) text.push(`${state.result}.`);
  else if (state.legal.length) text.push(`${state.black_to_move ? "Black" : "White"} to move.`);
  say(text.join(" "));
}

function say(text) {
  $("announce").textContent = text;
}

function note({ text, error }) {
  const node = element("div", { className: `note ${error ? "bad" : ""}`, textContent: text });
  $("notes").append(node);
  while ($("notes").children.length > 3) $("notes").firstChild.remove();
  setTimeout(() => node.remove(), NOTE_MS);
}

// --- what the user does ----------------------------------------------------------------------------------------------

const seats = () => ({ black: state.seats.black.text, white: state.seats.white.text });

function choose(name) {
  if (editor.active) editor.choose(NAMES.indexOf(name));
  else if (state && board.legal.has(name)) socket.send("play", { square: name, ply: state.ply });
}

// The ply that was asked for last, until it is shown: keys may be pressed faster than the server answers.
let wanted = null, asking = false;
function goto(ply) {
  if (!state || ply < 0 || ply > state.moves.length) return;
  wanted = ply;
  if (asking) return;
  asking = true;
  requestAnimationFrame(() => {
    asking = false;
    if (wanted !== null) socket.send("goto", { ply: wanted });
  });
}

function start({ here, ...fields }) {
  socket.send("new", here ? { ...fields, start: state.position } : fields);
}

function sendMinds() {
  if (!$("mind").value) return;
  remember.set("mind", $("mind").value);
  remember.set("other", $("other").value);
  remember.set("values", $("values").checked);
  socket.send("minds", { mind: $("mind").value, other: $("other").value, values: $("values").checked, look: $("look").checked });
  draw();
}

// A computer that is to move waits while the board is edited: its move would be the end of that. It may just have moved
// when it is told.
let waits = false;
function openEditor() {
  waits = state.thinking;
  if (waits) socket.send("pause", { on: true });
  editor.open(state.board, state.black_to_move);
}

function leaveEditor() {
  if (waits) socket.send("pause", { on: false });
  draw();
}

async function copy(what) {
  const text = { transcript: state.transcript, board: state.position, link: `${location.origin}${location.pathname}#${state.link}` }[what];
  try {
    await navigator.clipboard.writeText(text);
    note({ text: `Copied: ${text.length > 60 ? `${text.slice(0, 57)}…` : text || "nothing, there are no moves yet"}` });
  } catch {
    window.prompt("Copy this:", text);
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}
const dark = matchMedia("(prefers-color-scheme: dark)");
const systemTheme = () => (dark.matches ? "dark" : "light");
setTheme(remember.get("theme", null) ?? systemTheme());
dark.addEventListener("change", () => remember.get("theme", null) ?? setTheme(systemTheme()));

const actions = {
  new: () => newGame.open(),
  undo: () => socket.send("undo"),
  redo: () => socket.send("redo"),
  hint: () => socket.send("hint"),
  pause: () => socket.send("pause", { on: !state.paused }),
  resign: () => socket.send("resign"),
  analyze: () => socket.send("analyze", { on: !state.analyzes }),
  paste: () => pasting.open(),
  edit: openEditor,
  help: () => {
    $("help-dialog").showModal();
    $("help-dialog").scrollTop = 0; // the button at its end has the focus, and a phone would begin there
  },
  first: () => goto(0),
  back: () => goto((wanted ?? state.ply) - 1),
  forth: () => goto((wanted ?? state.ply) + 1),
  last: () => goto(state.moves.length),
  theme: () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    remember.set("theme", theme);
    setTheme(theme);
  },
};
for (const [id, act] of Object.entries(actions)) $(id).addEventListener("click", () => {
  $("more").open = false;
  if (state || id === "help" || id === "theme") act();
});
for (const button of document.querySelectorAll("[data-copy], [data-export]")) button.addEventListener("click", () => {
  $("more").open = false;
  if (button.dataset.copy) copy(button.dataset.copy);
  else socket.send("export", { format: button.dataset.export });
});
for (const id of ["mind", "other", "values", "look"]) $(id).addEventListener("change", sendMinds);
document.addEventListener("click", (event) => {
  if (!$("more").contains(event.target)) $("more").open = false;
});

const KEYS = {
  u: "undo", r: "redo", h: "hint", a: "analyze", n: "new", p: "paste", e: "edit", t: "theme", "?": "help", " ": "pause",
  ArrowLeft: "back", ArrowRight: "forth", Home: "first", End: "last",
};
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, dialog[open]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !state) return;
  const onBoard = document.activeElement === board.root, arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (arrow && (onBoard || event.key === "ArrowUp" || event.key === "ArrowDown")) {
    if (onBoard) board.moveCursor(...arrow);
    board.root.focus({ preventScroll: true });
    const name = NAMES[board.cursor], value = values.get(`${minds()[0]} ${state.position}`)?.moves[name];
    say(`${board.describe(name)}${value && $("values").checked ? `, ${discs(value)}` : ""}`);
  } else if (onBoard && event.key === "Enter") choose(NAMES[board.cursor]);
  else if (onBoard && event.key === "Escape") board.root.blur();
  else if (event.key === "v" || event.key === "l") $(event.key === "v" ? "values" : "look").click();
  else if (KEYS[event.key] && !(event.key === " " && event.target.closest("button, summary, input"))) {
    const button = $(KEYS[event.key]);
    if (!button.disabled && !button.hidden) actions[KEYS[event.key]]();
  } else return;
  event.preventDefault();
});
document.addEventListener("paste", (event) => {
  if (event.target.closest?.("input, textarea")) return;
  const text = event.clipboardData.getData("text");
  if (text.trim()) socket.send("paste", { text });
});
window.addEventListener("hashchange", () => {
  if (location.hash.length > 1 && location.hash !== `#${state?.link}`) socket.send("paste", { text: location.hash });
});
setInterval(() => state?.clocks && showClocks(state.clocks, stateAt), 200);
