// The evaluation over the game: up is good for black. One curve for each mind, mistakes as points, the ply that is shown
// as a line. Clicking or dragging goes to a ply.

import { svg } from "./board.js";

const LEFT = 26, RIGHT = 8, TOP = 8, BOTTOM = 16;

const WIDEST_GAP = 2; // plies: where the computer moves, or a side passes, every other one is known

// Points that belong together: a line over a gap would tell of moves that nobody has judged.
function runs(points) {
  const found = [];
  points.forEach((point, i) => {
    if (i && point.ply - points[i - 1].ply <= WIDEST_GAP) found[found.length - 1].push(point);
    else found.push([point]);
  });
  return found;
}

export class Graph {
  constructor(place, onPly) {
    this.place = place;
    this.data = { plies: 0, ply: 0, curves: [], turning: null };
    const at = (event) => {
      const box = place.getBoundingClientRect();
      const part = (event.clientX - box.left - LEFT) / Math.max(1, box.width - LEFT - RIGHT);
      onPly(Math.round(Math.min(1, Math.max(0, part)) * this.data.plies));
    };
    place.addEventListener("pointerdown", (event) => {
      place.setPointerCapture(event.pointerId);
      this.dragging = true;
      at(event);
    });
    place.addEventListener("pointermove", (event) => this.dragging && at(event));
    for (const end of ["pointerup", "pointercancel"]) place.addEventListener(end, () => (this.dragging = false));
    new ResizeObserver(() => this.draw()).observe(place);
  }

  show(data) {
    this.data = data;
    this.draw();
  }

  draw() {
    const { plies, ply, curves, turning, moves } = this.data;
    const width = this.place.clientWidth || 300, height = this.place.clientHeight || 150;
    const most = Math.max(8, ...curves.flatMap((curve) => curve.points.map((point) => Math.abs(point.value))));
    const scale = most > 32 ? 64 : most > 16 ? 32 : most > 8 ? 16 : 8;
    const px = (at) => LEFT + (width - LEFT - RIGHT) * (plies ? at / plies : 0);
    const py = (value) => TOP + (height - TOP - BOTTOM) * (0.5 - value / (2 * scale));
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Evaluation over the game, black above" });
    for (const value of [scale, -scale]) root.append(svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: py(value), y2: py(value) }));
    root.append(svg("line", { class: "zero", x1: LEFT, x2: width - RIGHT, y1: py(0), y2: py(0) }));
    for (const [value, text] of [[scale, `+${scale}`], [0, "0"], [-scale, `−${scale}`]]) root.append(svg("text", { x: LEFT - 5, y: py(value) + 3.5, "text-anchor": "end" }, text));
    root.append(svg("text", { x: LEFT, y: height - 3 }, "black ahead is up"));
    if (plies) root.append(svg("text", { x: width - RIGHT, y: height - 3, "text-anchor": "end" }, `move ${moves}`));
    if (turning !== null) root.append(svg("line", { class: "turning", x1: px(turning), x2: px(turning), y1: TOP, y2: height - BOTTOM }));
    if (plies && !curves.some((curve) => curve.points.length)) root.append(svg("text", { class: "empty", x: width / 2, y: py(scale / 2), "text-anchor": "middle" }, "Analyse, or values on the squares, draw who is ahead"));
    curves.forEach((curve, k) => {
      for (const points of runs(curve.points)) {
        const path = points.map((point, i) => `${i ? "L" : "M"}${px(point.ply).toFixed(1)} ${py(point.value).toFixed(1)}`).join("");
        const first = points[0], end = points[points.length - 1];
        if (!k) root.append(svg("path", { class: "area", d: `${path}L${px(end.ply)} ${py(0)}L${px(first.ply)} ${py(0)}Z` }));
        if (first !== end) root.append(svg("path", { class: `curve ${k ? "second" : ""}`, d: path }));
        for (const point of points) {
          if (point.mark && !k) root.append(svg("circle", { class: `point ${point.mark === "??" ? "qq" : "q"}`, cx: px(point.ply), cy: py(point.value), r: 4 }));
          else if (point.ply === ply || first === end) root.append(svg("circle", { class: `point ${k ? "second" : ""}`, cx: px(point.ply), cy: py(point.value), r: 3 }));
        }
      }
    });
    root.append(svg("line", { class: "now", x1: px(ply), x2: px(ply), y1: TOP, y2: height - BOTTOM }));
    this.place.replaceChildren(root);
  }
}
