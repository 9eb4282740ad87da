// What stands beside the board: status, thoughts, moves.

import { discs } from "./board.js";

const $ = (id) => document.getElementById(id);

export function element(tag, fields = {}, ...children) {
  const node = Object.assign(document.createElement(tag), fields);
  node.append(...children);
  return node;
}

export function showPlayers(state, rating) {
  for (const colour of ["black", "white"]) {
    const place = $(colour), seat = state.seats[colour], sign = colour === "black" ? "X" : "O";
    const [name, level] = seat.text.split("@");
    const people = state.seats.black.person && state.seats.white.person;
    place.querySelector(".name").textContent = seat.person ? (people ? (colour === "black" ? "Black" : "White") : "You") : name;
    const rated = seat.person ? "" : rating(name, level);
    place.querySelector(".rating").textContent = seat.person ? (people ? "" : colour) : [level === "own" ? "" : level, rated].filter(Boolean).join(" · ");
    place.querySelector(".count").textContent = [...state.board].filter((disc) => disc === sign).length;
    const turn = !state.over && state.black_to_move === (colour === "black");
    place.classList.toggle("turn", turn);
    place.classList.toggle("thinking", turn && state.thinking);
  }
}

export function showClocks(clocks, since) {
  for (const colour of ["black", "white"]) {
    const place = $(colour).querySelector(".clock");
    place.hidden = !clocks;
    if (!clocks) continue;
    const left = Math.max(0, clocks[colour] - (clocks.running === colour ? (performance.now() - since) / 1000 : 0));
    place.textContent = left < 10 ? left.toFixed(1) : `${Math.floor(left / 60)}:${String(Math.floor(left % 60)).padStart(2, "0")}`;
    place.classList.toggle("low", left < 10);
  }
}

export function statusText(state) {
  const side = state.black_to_move ? "Black" : "White", at = state.ply < state.moves.length;
  if (!state.over || at) {
    const seat = state.seats[state.black_to_move ? "black" : "white"];
    const passed = state.passed ? `${state.black_to_move ? "White" : "Black"} has no move and passes. ` : "";
    if (at && !state.legal.length) return `After move ${numberOf(state, state.ply)}`;
    if (state.thinking) return `${passed}${seat.title.split(",")[0]} is thinking …`;
    return `${passed}${side} to move${state.paused && !seat.person && !at ? " (waiting)" : ""}`;
  }
  return state.result;
}

// Moves are counted without passes.
export const numberOf = (state, ply) => state.moves.slice(0, ply).filter((move) => move !== "pass").length;

export function showThoughts(place, shown, side) {
  place.replaceChildren(...shown.map((one, k) => {
    const best = one.moves[one.best];
    const depth = best.exact ? "exact, 100 %" : `${one.depth} ${one.depth === 1 ? "move" : "moves"} deep, ${one.confidence} %`;
    return element("div", { className: `thought ${k ? "second" : "first"}` },
      element("b", { textContent: discs(best), className: best.exact ? "exact" : "" }),
      element("span", { textContent: `${one.best} for ${side}` }),
      element("span", { className: "deepness", textContent: `${depth}${one.done ? "" : " …"}` }),
      element("span", { className: "line", textContent: one.line.join(" ") }));
  }));
}

export function showLook(place, look, onSpot) {
  place.hidden = !look;
  if (!look) return;
  const explained = look.kind === "patterns"
    ? `Yellow squares speak for the side to move, violet ones against it. Each pattern counts by how much ${look.mind}'s score (${signed(look.score)}, without looking ahead) would fall if the pattern said what it says on average at this stage of a game.`
    : `Yellow discs speak for the side to move, violet ones against it: half of what ${look.mind}'s score (${signed(look.score)}, without looking ahead) would fall by if the disc had the other colour.`;
  const list = element("ul");
  for (const pattern of look.patterns) {
    const item = element("li", { tabIndex: 0 }, element("b", { textContent: signed(pattern.discs) }), element("span", { textContent: pattern.squares.join(" ") }));
    for (const event of ["mouseenter", "focus"]) item.addEventListener(event, () => onSpot(pattern.squares));
    for (const event of ["mouseleave", "blur"]) item.addEventListener(event, () => onSpot([]));
    list.append(item);
  }
  place.replaceChildren(element("p", { className: "muted", textContent: explained }), list);
}

export const signed = (value) => discs({ value, exact: false });

export function showMoves(place, state, rows, turning, onPly) {
  let black = state.start_side, number = 0, current = null;
  const items = state.moves.map((move, ply) => {
    const row = rows.get(ply), mark = row?.mark ?? "", classes = [black ? "b" : "w", ply >= state.ply && "after"].filter(Boolean).join(" ");
    if (move !== "pass") number += 1;
    const button = element("button", { className: classes, title: row ? lossTitle(row) : "" },
      element("small", { textContent: move === "pass" ? "" : number }), element("i"),
      element("span", { textContent: move === "pass" ? "pass" : move, className: ply === turning ? "turning" : "" }),
      element("em", { textContent: mark, className: mark === "??" ? "qq" : "q" }));
    if (ply + 1 === state.ply) {
      button.setAttribute("aria-current", "true");
      current = button;
    }
    button.addEventListener("click", () => onPly(ply + 1));
    black = !black;
    return element("li", {}, button);
  });
  place.replaceChildren(...items);
  if (current) place.scrollTop = Math.max(0, current.offsetTop - place.offsetTop - place.clientHeight / 2);
}

function lossTitle(row) {
  if (row.agrees) return "the best move";
  return `${row.best} was ${row.exact ? Math.round(row.loss) : row.loss.toFixed(1)} discs better${row.exact ? " (exact)" : ""}`;
}
