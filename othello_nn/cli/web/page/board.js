// The board: an SVG of 8 × 8 squares of 10 units with a frame for their names. It shows what it is given and says which
// square was chosen; what may be played is the server's business.

const NS = "http://www.w3.org/2000/svg";
const FRAME = 4, RIM = 1.6, CELL = 10, SIZE = 8 * CELL + FRAME + RIM;
export const NAMES = Array.from({ length: 64 }, (_, i) => "abcdefgh"[i % 8] + (1 + (i >> 3)));
const INDEX = Object.fromEntries(NAMES.map((name, i) => [name, i]));
const STAGGER_MS = 35;

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const x = (i) => FRAME + CELL * (i % 8), y = (i) => FRAME + CELL * (i >> 3);

function gradient(id, ...stops) {
  return svg("radialGradient", { id, cx: "36%", cy: "30%", r: "75%" },
    ...stops.map(([offset, colour]) => svg("stop", { offset, "stop-color": colour })));
}

export class Board {
  constructor(place, onChoose) {
    this.place = place;
    this.onChoose = onChoose;
    this.shown = "-".repeat(64);
    this.cursor = 27;
    this.legal = new Set();
    this.root = svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, tabindex: 0, role: "application", "aria-label": "Board: arrows choose a square, Enter plays it" });
    this.root.append(svg("defs", {}, gradient("disc-black", [0, "#59636a"], [0.55, "#22272a"], [1, "#101314"]),
      gradient("disc-white", [0, "#ffffff"], [0.6, "#f1f1ec"], [1, "#cfd0c9"])));
    this.root.append(svg("rect", { class: "frame", width: SIZE, height: SIZE, rx: 1.6 }));
    this.root.append(svg("rect", { class: "felt", x: FRAME, y: FRAME, width: 8 * CELL, height: 8 * CELL }));
    for (let i = 0; i < 64; i++) if ((i + (i >> 3)) % 2) this.root.append(svg("rect", { class: "felt-2", x: x(i), y: y(i), width: CELL, height: CELL }));
    let lines = "";
    for (let k = 0; k <= 8; k++) lines += `M${FRAME} ${FRAME + CELL * k}h${8 * CELL}M${FRAME + CELL * k} ${FRAME}v${8 * CELL}`;
    this.root.append(svg("path", { class: "grid", d: lines }));
    for (const [column, row] of [[2, 2], [2, 6], [6, 2], [6, 6]]) this.root.append(svg("circle", { class: "star", cx: FRAME + CELL * column, cy: FRAME + CELL * row, r: 0.7 }));
    for (let k = 0; k < 8; k++) {
      this.root.append(svg("text", { class: "coord", x: FRAME + CELL * (k + 0.5), y: FRAME / 2 }, "abcdefgh"[k]));
      this.root.append(svg("text", { class: "coord", x: FRAME / 2, y: FRAME + CELL * (k + 0.5) }, String(k + 1)));
    }
    this.heat = this.layer();
    this.squares = NAMES.map((name, i) => svg("rect", { class: "square", "data-square": name, x: x(i), y: y(i), width: CELL, height: CELL }));
    this.layer().append(...this.squares);
    this.under = this.layer();
    this.pieces = Array(64).fill(null);
    this.pieceLayer = this.layer();
    this.over = this.layer();
    this.spots = this.layer();
    this.cursorMark = svg("rect", { class: "cursor", width: CELL - 0.8, height: CELL - 0.8, rx: 0.6 });
    this.root.append(this.cursorMark);
    this.root.addEventListener("mousedown", (event) => event.preventDefault()); // a click does not take the keyboard
    this.root.addEventListener("click", (event) => {
      const name = event.target.getAttribute("data-square");
      if (name) this.onChoose(name);
    });
    place.append(this.root);
    this.moveCursor(0, 0);
  }

  layer() {
    const group = svg("g");
    this.root.append(group);
    return group;
  }

  moveCursor(right, down) {
    const column = Math.min(7, Math.max(0, this.cursor % 8 + right)), row = Math.min(7, Math.max(0, (this.cursor >> 3) + down));
    this.cursor = 8 * row + column;
    this.cursorMark.setAttribute("x", x(this.cursor) + 0.4);
    this.cursorMark.setAttribute("y", y(this.cursor) + 0.4);
    return NAMES[this.cursor];
  }

  describe(name) {
    const sign = this.shown[INDEX[name]];
    return `${name}, ${sign === "X" ? "black" : sign === "O" ? "white" : this.legal.has(name) ? "legal move" : "empty"}`;
  }

  // Discs that appear drop, discs that change their colour turn over, nearest to the new one first.
  show(board, { legal = [], last = null, blackToMove = true, animate = true } = {}) {
    const added = [...board].findIndex((sign, i) => sign !== "-" && this.shown[i] === "-");
    const changes = [...board].filter((sign, i) => sign !== this.shown[i]).length;
    const lively = animate && changes > 0 && changes < 20;
    for (let i = 0; i < 64; i++) {
      const sign = board[i], before = this.shown[i];
      if (sign === before) {
        this.pieces[i]?.classList.remove("placed", "flipped");
        continue;
      }
      this.pieces[i]?.remove();
      this.pieces[i] = null;
      if (sign === "-") continue;
      const piece = this.pieces[i] = this.makePiece(i, sign);
      if (lively && before === "-") piece.classList.add("placed");
      if (lively && before !== "-") {
        const distance = added < 0 ? 0 : Math.max(Math.abs((i % 8) - (added % 8)), Math.abs((i >> 3) - (added >> 3)));
        piece.classList.add("flipped");
        piece.style.setProperty("--delay", `${distance * STAGGER_MS}ms`);
      }
      this.pieceLayer.append(piece);
    }
    this.shown = board;
    this.legal = new Set(legal);
    this.place.classList.toggle("white-turn", !blackToMove);
    this.squares.forEach((square, i) => square.classList.toggle("legal", this.legal.has(NAMES[i])));
    this.last = last;
    this.mark({});
  }

  makePiece(i, sign) {
    const at = { cx: x(i) + CELL / 2, cy: y(i) + CELL / 2, r: 4.1 };
    return svg("g", { class: `piece is-${sign === "X" ? "b" : "w"}` },
      svg("circle", { class: "shade", ...at, cy: at.cy + 0.35 }),
      svg("g", { class: "turner" },
        svg("circle", { class: "face-b", ...at, fill: "url(#disc-black)" }),
        svg("circle", { class: "face-w", ...at, fill: "url(#disc-white)" })));
  }

  // What lies over and under the discs: dots, values of one or two players, a hint, what a net looks at.
  mark({ values = [], hint = null, look = null, dots = true }) {
    this.under.replaceChildren();
    this.over.replaceChildren();
    this.heat.replaceChildren();
    if (look) {
      const most = Math.max(0.5, ...look.squares.map(Math.abs));
      look.squares.forEach((part, i) => {
        const strength = Math.abs(part) / most;
        if (strength > 0.04) this.heat.append(svg("rect", { class: `heat ${part > 0 ? "for" : "against"}`, x: x(i), y: y(i), width: CELL, height: CELL, opacity: (0.75 * strength).toFixed(3) }));
      });
    }
    const valued = new Set();
    values.forEach((one, k) => {
      const shown = Object.entries(one.moves).filter(([name]) => this.legal.has(name));
      const top = Math.max(...shown.map(([, value]) => value.value));
      for (const [name, value] of shown) {
        valued.add(name);
        const i = INDEX[name], two = values.length > 1, best = name === one.best;
        if (best) this.under.append(svg("rect", { class: `best ${k ? "second" : ""}`, x: x(i) + 0.5 + 0.5 * k, y: y(i) + 0.5 + 0.5 * k, width: CELL - 1 - k, height: CELL - 1 - k, rx: 1 }));
        const classes = ["value", two && "two", k && "second", best && !k && "top", value.exact && "exact", top - value.value > 6 && "bad"].filter(Boolean).join(" ");
        const middle = y(i) + CELL / 2 + (two ? (k ? 2 : -1.6) : -0.3);
        this.over.append(svg("text", { class: classes, x: x(i) + CELL / 2, y: middle, "data-value": name, "data-mind": k }, discs(value)));
        if (!two) this.over.append(svg("text", { class: "deep", x: x(i) + CELL / 2, y: y(i) + 7.6 }, value.exact ? "exact" : `${value.depth}`));
      }
    });
    if (dots) for (const name of this.legal) {
      if (!valued.has(name)) this.under.append(svg("circle", { class: "dot", cx: x(INDEX[name]) + CELL / 2, cy: y(INDEX[name]) + CELL / 2, r: 1.1 }));
    }
    if (this.last) this.over.append(svg("circle", { class: "last", cx: x(INDEX[this.last]) + CELL / 2, cy: y(INDEX[this.last]) + CELL / 2, r: 0.95 }));
    if (hint) this.over.append(svg("circle", { class: "hint", cx: x(INDEX[hint]) + CELL / 2, cy: y(INDEX[hint]) + CELL / 2, r: 4.2 }));
  }

  spot(names) {
    this.spots.replaceChildren(...names.map((name) => svg("rect", { class: "spot", x: x(INDEX[name]) + 0.4, y: y(INDEX[name]) + 0.4, width: CELL - 0.8, height: CELL - 0.8, rx: 0.8 })));
  }
}

// Discs with a sign: whole if exact, else to a tenth.
export function discs({ value, exact }) {
  const rounded = exact ? Math.round(value) : Math.round(10 * value) / 10;
  const text = exact ? Math.abs(rounded).toString() : Math.abs(rounded).toFixed(1);
  return (rounded > 0 ? "+" : rounded < 0 ? "−" : exact ? "" : "±") + text;
}
