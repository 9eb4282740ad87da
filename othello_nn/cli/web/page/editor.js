// The board editor: paint discs, say who is to move.

const START = `${"-".repeat(27)}OX${"-".repeat(6)}XO${"-".repeat(27)}`;
const $ = (id) => document.getElementById(id);

export class Editor {
  constructor(board, onDone, onCancel) {
    Object.assign(this, { board, signs: null, asked: null });
    $("edit-clear").addEventListener("click", () => this.paint("-".repeat(64)));
    $("edit-start").addEventListener("click", () => this.paint(START));
    $("edit-cancel").addEventListener("click", () => (this.close(), onCancel()));
    $("edit-done").addEventListener("click", () => {
      this.asked = `${this.signs} ${$("edit-side").value}`; // the server may refuse it: then the editor stays open
      onDone(this.asked);
    });
  }

  get active() {
    return this.signs !== null;
  }

  open(signs, blackToMove) {
    this.asked = null;
    $("edit-side").value = blackToMove ? "X" : "O";
    $("editor").hidden = false;
    this.board.place.classList.add("editing");
    this.paint(signs);
  }

  close() {
    this.signs = null;
    $("editor").hidden = true;
    this.board.place.classList.remove("editing");
  }

  paint(signs) {
    this.signs = signs;
    this.board.show(signs, { animate: false });
  }

  // A click: the chosen disc, or nothing where that disc is already.
  choose(index) {
    const brush = document.querySelector("[name=brush]:checked").value;
    const sign = this.signs[index] === brush ? "-" : brush;
    this.paint(this.signs.slice(0, index) + sign + this.signs.slice(index + 1));
  }
}
