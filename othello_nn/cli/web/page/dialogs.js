// New game, paste, keys: the dialogs of the page.

const $ = (id) => document.getElementById(id);

export function fill(select, items, chosen) {
  select.replaceChildren(...items.map(([value, text, title]) => Object.assign(new Option(text, value), { title: title ?? "" })));
  if (items.some(([value]) => value === chosen)) select.value = chosen;
}

export class NewGame {
  constructor(remember, onStart) {
    this.dialog = $("new-dialog");
    this.remember = remember;
    this.dialog.addEventListener("change", () => this.refresh());
    this.dialog.addEventListener("close", () => this.dialog.returnValue === "ok" && onStart(this.choice()));
  }

  offer(welcome) {
    this.welcome = welcome;
    const before = this.remember.get("seats", { side: "black", players: ["champion", "champion"], levels: ["Casual", "Club"] });
    const names = welcome.players.map((player) => [player.name, player.name, player.about]);
    [1, 2].forEach((k) => {
      fill($(`player-${k}`), names, before.players[k - 1]);
      this.levels(k, before.levels[k - 1]);
    });
    const side = this.dialog.querySelector(`[name=side][value=${before.side}]`);
    if (side) side.checked = true;
    const from = $("from");
    [...from.querySelectorAll("optgroup")].forEach((group) => group.remove());
    const group = Object.assign(document.createElement("optgroup"), { label: "an opening" });
    group.append(...welcome.openings.map((name) => new Option(name, `opening ${name}`)));
    from.append(group);
    this.refresh();
  }

  rating(player, level) {
    const rating = this.welcome?.ratings[`${player}@${level}`];
    return rating === undefined ? "" : `${rating}`;
  }

  levels(k, chosen) {
    const name = $(`player-${k}`).value, player = this.welcome.players.find((one) => one.name === name);
    const about = Object.fromEntries(this.welcome.levels.map((level) => [level.name, level.about]));
    const items = player.levels.map((level) => {
      const rating = this.rating(name, level);
      return [level, level === "own" ? "as it plays" : `${level}${rating ? ` · ${rating}` : ""}`, about[level]];
    });
    fill($(`level-${k}`), items, chosen);
    $(`about-${k}`).textContent = [player.about, about[$(`level-${k}`).value]].filter(Boolean).join("; ");
  }

  refresh() {
    const side = this.side();
    $("first-player").hidden = side === "both";
    $("second-player").hidden = side !== "none";
    $("first-player").querySelector(".what").textContent = side === "none" ? "Black" : "Against";
    [1, 2].forEach((k) => this.levels(k, $(`level-${k}`).value));
  }

  side() {
    return this.dialog.querySelector("[name=side]:checked").value;
  }

  open() {
    this.dialog.returnValue = "";
    this.dialog.showModal();
    $("start").focus();
  }

  // What to tell the server; "here" is for the page to fill in.
  choice() {
    const side = this.side(), from = $("from").value;
    const seats = [1, 2].map((k) => `${$(`player-${k}`).value}@${$(`level-${k}`).value}`);
    this.remember.set("seats", { side, players: [$("player-1").value, $("player-2").value], levels: [$("level-1").value, $("level-2").value] });
    const human = "human";
    const [black, white] = { black: [human, seats[0]], white: [seats[0], human], both: [human, human], none: seats }[side];
    const opening = from === "random" ? "random" : from.startsWith("opening ") ? from.slice(8) : "";
    return { black, white, opening, clock: Number($("clock").value), here: from === "here" };
  }
}

export class PasteDialog {
  constructor(onText) {
    this.dialog = $("paste-dialog");
    this.onText = onText;
    $("paste-read").addEventListener("click", () => this.read());
    $("paste-text").addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.read());
  }

  read() {
    $("paste-error").hidden = true;
    this.onText($("paste-text").value);
  }

  open() {
    $("paste-text").value = "";
    $("paste-error").hidden = true;
    this.dialog.showModal();
    $("paste-text").focus();
  }

  // The server's answer: true if the dialog has shown it.
  hear(note) {
    if (!this.dialog.open) return false;
    if (note.error) {
      $("paste-error").textContent = note.text;
      $("paste-error").hidden = false;
      return true;
    }
    this.dialog.close();
    return false;
  }
}
