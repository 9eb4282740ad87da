"""What the page is told, as JSON: plain dictionaries of a session's state, its analysis and its thoughts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from othello_nn.cli.terminal.game import COLOURS
from othello_nn.cli.web.game import Clocks
from othello_nn.cli.web.judging import as_row, tell_story
from othello_nn.cli.web.named import opening_name
from othello_nn.cli.web.paste import write_fragment
from othello_nn.cli.web.values import Values
from othello_nn.game.formats.files import format_ggf, format_sgf
from othello_nn.game.notation import format_transcript, move_name
from othello_nn.game.rules import PASS, squares_in
from othello_nn.game.svg import board_svg
from othello_nn.players.base import Choice

if TYPE_CHECKING:
    from othello_nn.cli.web.session import Session

LINE_MOVES = 16
"""Moves of an expected line that are told; the rest is guesswork."""


def state_news(session: Session) -> dict[str, Any]:
    """The game, who plays it, and what can be done."""
    game, position, course = session.game, session.game.position, session.game.course
    last = course.moves[course.ply - 1] if course.ply else None
    passed = last == PASS
    if passed and course.ply > 1:
        last = course.moves[course.ply - 2]
    transcript = format_transcript(course.moves)
    return {
        "version": session.version,
        "position": position.to_text(),
        "board": position.board_string(),
        "black_to_move": position.black_to_move,
        "legal": [move_name(square) for square in squares_in(position.legal_mask)],
        "start": course.start.to_text(),
        "start_side": course.start.black_to_move,
        "moves": [move_name(move) for move in course.moves],
        "ply": course.ply,
        "last": None if last is None or last == PASS else move_name(last),
        "passed": passed,
        "over": game.is_over,
        "result": game.result,
        "margin": game.margin,
        "seats": {
            COLOURS[side].lower(): {"text": seat.text, "title": seat.title, "person": seat.is_person}
            for side, seat in session.seats.items()
        },
        "clocks": clock_news(session.clocks),
        "paused": session.paused,
        "thinking": session.waits_for_computer,
        "opening": opening_name(game.positions[: course.ply + 1]),
        "can_undo": game.can_undo,
        "can_redo": game.can_redo,
        "transcript": transcript,
        "link": write_fragment(course.start, transcript, None if game.is_last else course.ply),
        "analyzes": session.analyzes,
    }


def clock_news(clocks: Clocks) -> dict[str, Any] | None:
    if not clocks.seconds:
        return None
    running = clocks.running
    return {
        "seconds": clocks.seconds,
        "black": clocks.left(True),
        "white": clocks.left(False),
        "running": None if running is None else COLOURS[running].lower(),
    }


def analysis_news(session: Session, progress: dict[str, tuple[int, int]], running: bool) -> dict[str, Any]:
    """Everything that is known about the moves of the game, by each mind."""
    course, positions = session.game.course, session.game.positions
    people = [side for side, seat in session.seats.items() if seat.is_person]
    minds = []
    for mind in session.minds:
        found = [
            None if move == PASS else session.known(mind, position, move)
            for position, move in zip(positions, course.moves, strict=False)
        ]
        story = tell_story(course.moves, found, session.game.margin, people[0] if len(people) == 1 else None)
        done, total = progress.get(mind, (0, 0))
        minds.append(
            {
                "mind": mind,
                "rows": [as_row(ply, one) for ply, one in enumerate(found) if one is not None],
                "losses": {"black": round(story.losses[True], 1), "white": round(story.losses[False], 1)},
                "turning": story.turning,
                "story": story.text,
                "done": done,
                "total": total,
            }
        )
    return {
        "transcript": format_transcript(course.moves),
        "start": course.start.to_text(),
        "minds": minds,
        "running": session.analyzes and running,
    }


def file_news(session: Session, kind: str) -> dict[str, Any]:
    """The game, or a picture of the position that is shown, as a file."""
    position = session.game.position
    record = session.game.record(*(session.seats[side].title for side in (True, False)))
    side = None if position.is_over else position.black_to_move
    texts = {
        "ggf": lambda: format_ggf([record]),
        "sgf": lambda: format_sgf([record]),
        "txt": lambda: f"{format_transcript(record.moves)}\n",
        "svg": lambda: board_svg(position.black, position.white, position.legal_mask, side),
    }
    return {"name": f"othello.{kind}", "text": texts[kind]()}


def choice_news(choice: Choice) -> dict[str, Any]:
    return {
        "move": None if choice.move is None else move_name(choice.move),
        "score": None if choice.score is None else round(choice.score, 2) + 0.0,
        "exact": choice.exact,
        "depth": choice.depth,
        "line": [move_name(move) for move in choice.pv[:LINE_MOVES]],
    }


def values_news(values: Values) -> dict[str, Any]:
    """Values for the side to move."""
    return {
        "position": values.position.to_text(),
        "moves": {
            move_name(move): {
                "value": round(value, 2) + 0.0,
                "depth": values.depths[move],
                "exact": move in values.exact,
            }
            for move, value in values.moves.items()
        },
        "best": move_name(values.best),
        "line": [move_name(move) for move in values.line[:LINE_MOVES]],
        "depth": values.depth,
        "confidence": values.confidence,
        "done": values.done,
        "nodes": values.nodes,
    }
