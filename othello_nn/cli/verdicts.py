"""How the judgements of ``analyze`` are shown: a line for a move, sums, a curve, where the game was lost."""

from __future__ import annotations

import sys
from itertools import accumulate

from othello_nn.cli.curves import curves_svg
from othello_nn.cli.judges import SIDES, Judged
from othello_nn.game.notation import move_name
from othello_nn.game.record import Game
from othello_nn.game.rules import PASS
from othello_nn.sparkline import can_show_sparkline, sparkline

HEADING = "move  side   played   value  best   value   loss  depth"
COLOURS = {"??": "1;31", "?": "33"}
"""Of a marked move's line, in a terminal that has colours."""
LEAST_SCALE = 8.0
"""Discs from the middle of a curve to its edge, at least: small changes look small."""


def _discs(value: float, exact: bool) -> str:
    return f"{value:+.0f}" if exact else f"{value:+.2f}"


def show_heading(number: int, game: Game, games: int) -> None:
    names = f"{game.black or 'black'} against {game.white or 'white'}" if game.black or game.white else ""
    result = "" if game.result is None else f"{game.result:+d} for black"
    said = ", ".join(part for part in (names, result) if part)
    if games > 1 or said:
        between = "\n" if number > 1 else ""
        print(f"{between}game {number}{': ' if said else ''}{said}")
    print(HEADING, flush=True)


def show_move(judged: Judged, in_colour: bool = False) -> None:
    text = move_line(judged)
    colour = COLOURS.get(mark_of(judged)) if in_colour else None
    print(text if colour is None else f"\x1b[{colour}m{text}\x1b[0m", flush=True)


def move_line(judged: Judged) -> str:
    loss = "=" if judged.agrees else f"{judged.loss:.0f}" if judged.exact else f"{judged.loss:.2f}"
    return (
        f"{judged.number:4d}  {SIDES[judged.position.black_to_move]:5s}  "
        f"{move_name(judged.move) + mark_of(judged):6s} "
        f"{_discs(judged.value, judged.exact):>7s}  {move_name(judged.best.move):4s} "
        f"{_discs(judged.best.value, judged.best.exact):>7s} {loss:>6s}  "
        f"{'exact' if judged.best.exact else f'{judged.best.depth:5d}'}"
    )


def mark_of(judged: Judged) -> str:
    """``?`` for a mistake, ``??`` for a blunder, as the browser marks them."""
    from othello_nn.cli.web.judging import Judgement

    return Judgement(judged, 0).mark


def show_summary(judged: list[Judged]) -> None:
    """Each side's moves, and apart from the others those that were solved: there the player is right beyond doubt."""
    if not judged:
        return
    print("\n               moves  agree  mean loss  total loss  biggest mistake")
    for side in (True, False):
        own = [one for one in judged if one.position.black_to_move == side]
        solved = [one for one in own if one.exact]
        print(_summary_line(SIDES[side], own))
        if solved and len(solved) < len(own):
            print(_summary_line("  estimated", [one for one in own if not one.exact]))
            print(_summary_line("  solved", solved))


def _summary_line(name: str, judged: list[Judged]) -> str:
    if not judged:
        return f"{name:13s}  {0:5d}"
    total = sum(one.loss for one in judged)
    agreement = sum(one.agrees for one in judged) / len(judged)
    worst = max(judged, key=lambda one: one.loss)
    where = f"game {worst.game}, " if len({one.game for one in judged}) > 1 else ""
    mistake = f"{where}{worst.number}. {move_name(worst.move)} lost {worst.loss:.1f}" if worst.loss else "-"
    return f"{name:13s}  {len(judged):5d}  {agreement:5.0%}  {total / len(judged):9.2f}  {total:10.1f}  {mistake}"


# --- a game as a whole -----------------------------------------------------------------------------------------------


def values_for_black(judged: list[Judged]) -> list[float]:
    """What the position is worth after each move."""
    return [one.value if one.position.black_to_move else 0.0 - one.value for one in judged]


def curve_line(judged: list[Judged]) -> str:
    """The values over the game, for black, in a line of at most 79 columns."""
    values = values_for_black(judged)
    scale = max(LEAST_SCALE, *map(abs, values))
    return f"black  {sparkline(values, -scale, scale)}  {min(values):+.0f} to {max(values):+.0f}"


def story_line(game: Game, judged: list[Judged], person: bool | None = None) -> str:
    """The move at which the game was lost; empty if none stands out, or the game is not over. ``person`` is the side of
    the one who reads."""
    from othello_nn.cli.web.judging import Judgement, tell_story

    margin = game.result
    if margin is None and game.final.is_over:
        margin = game.final.black_score()
    own = iter(judged)
    found = [None if move == PASS or (one := next(own, None)) is None else Judgement(one, 0) for move in game.moves]
    return tell_story(game.moves, found, margin, person).text.replace("−", "-")


def show_story(game: Game, judged: list[Judged]) -> None:
    if len(judged) > 1 and can_show_sparkline(sys.stdout):
        print(f"\n{curve_line(judged)}")
    if text := story_line(game, judged):
        print(text)


def graph_svg(title: str, judged: list[Judged]) -> str:
    """The value over the game and what each side has given away by then, as a picture."""
    lost = {
        side: list(accumulate(one.loss if one.position.black_to_move == side else 0.0 for one in judged))
        for side in (True, False)
    }
    curves = {
        "value": values_for_black(judged),
        "lost by black": [0.0 - loss for loss in lost[True]],
        "lost by white": lost[False],
    }
    return curves_svg(title, [one.number for one in judged], curves, "discs")
