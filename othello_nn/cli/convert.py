"""``play.py convert``: games from one format to another, filtered, corrected by the solver, counted.

The steps stand in ``convert``; what they are made of is in ``othello_nn/collection``.
"""

from __future__ import annotations

import json
import re
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from othello_nn.cli.base import INTERRUPTED, Failure, UsageError
from othello_nn.cli.components import check_picture, write_picture
from othello_nn.cli.convert_arguments import TARGETS
from othello_nn.cli.saving import why_unwritable
from othello_nn.collection.sources import STDIN, Filter, read_source, symmetric_key
from othello_nn.errors import shorten
from othello_nn.files import write_whole
from othello_nn.game.formats.files import format_ggf, format_obf, format_sgf, format_transcripts
from othello_nn.game.formats.obf import ObfEntry
from othello_nn.game.position import Position
from othello_nn.game.record import Game, RecordError
from othello_nn.game.rules import PASS
from othello_nn.program import PLAY, note
from othello_nn.progress import progress

if TYPE_CHECKING:
    from othello_nn.collection.correct import Solutions

SHOWN_BAD = 10
SOLVED = ".solved"
"""What is added to the name of OUT for the journal of ``--correct``."""
PLAIN_SECONDS = 10.0
_CORRECTED = {
    "too_short": "games stopped before that and stay as they are",
    "listed_otherwise": "had another exact result listed",
}
_YEARS = re.compile(r"([0-9]{4})(?:-([0-9]{4}))?")


@dataclass
class Summary:
    """What became of the games."""

    read: int = 0
    bad: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    corrected: dict[str, int] = field(default_factory=dict)

    def report(self, error: RecordError) -> None:
        """A game that cannot be used."""
        self.bad += 1
        if self.bad <= SHOWN_BAD:
            note(PLAY, f"left out: {error}")


def convert(arguments: Namespace) -> int:
    """``play.py convert``."""
    sources, out = _places(arguments)
    wanted, started, summary = _filter(arguments), time.perf_counter(), Summary()
    games = _wanted(_read(sources, arguments.strict, summary), wanted, arguments.distinct, summary)
    if summary.bad > SHOWN_BAD:
        note(PLAY, f"left out: {summary.bad - SHOWN_BAD} more games that cannot be used")
    if not games:
        raise Failure(f"there are no games left of {_of_read(summary)}")
    if arguments.statistics:
        return _count(games, arguments)
    assert out is not None
    try:
        written = _write(games, out, arguments, summary)
    except KeyboardInterrupt:
        note(PLAY, "interrupted; the same command goes on with what was solved")
        return INTERRUPTED
    _tell(summary, out, written, time.perf_counter() - started, arguments.json)
    return 0


# --- what was asked for ----------------------------------------------------------------------------------------------


def _places(arguments: Namespace) -> tuple[list[str], str | None]:
    """The files to read and the one to write, checked before anything is read; ``--to`` is set."""
    *sources, out = files = [word.strip() for word in arguments.files]
    if arguments.statistics:
        for name in ("to", "correct", "cut"):
            if getattr(arguments, name) not in (None, False):
                raise UsageError(f"--statistics writes no games, so --{name} means nothing: convert them first")
        sources, out = files, None
    elif not sources:
        raise UsageError(f"say where the games of {out!r} go, as in convert {out} games.ggf, or ask for --statistics")
    if sources.count(STDIN) > 1:
        raise UsageError("stdin can be read once")
    for name in sources:
        if name != STDIN and not Path(name).exists():
            raise UsageError(f"there is no file {name!r}")
    if arguments.picture and not arguments.statistics:
        raise UsageError("--picture draws --statistics; ask for both")
    check_picture(arguments.picture, 1)
    if arguments.cut and arguments.correct is None:
        raise UsageError("--cut ends games where they were solved; say --correct N, too")
    if out is not None:
        _check_out(out, sources, arguments)
    return sources, out


def _check_out(out: str, sources: list[str], arguments: Namespace) -> None:
    arguments.to = arguments.to or TARGETS.get(Path(out).suffix.lower())
    if arguments.to is None:
        what = "stdout" if out == STDIN else repr(out)
        if Path(out).suffix.lower() == ".wtb":
            raise UsageError(f"{what}: files of WTHOR are read, not written; {', '.join(TARGETS)} are")
        raise UsageError(f"say with --to what {what} is to be: {', '.join(TARGETS.values())}")
    if arguments.cut and arguments.to == "obf":
        raise UsageError("--cut is for games, and OBF holds positions")
    if out == STDIN:
        if arguments.json:
            raise UsageError("the games go to stdout, so --json cannot; name a file for them")
        return
    if reason := why_unwritable(Path(out)):
        raise UsageError(f"{out!r} cannot be written: {reason}")
    if any(name != STDIN and Path(name).samefile(out) for name in sources if Path(out).exists()):
        raise UsageError(f"{out!r} is read; write to another file")


def _filter(arguments: Namespace) -> Filter:
    years = None
    if arguments.years is not None:
        match = _YEARS.fullmatch(arguments.years.strip())
        if match is None or int(match[1]) > int(match[2] or match[1]):
            raise UsageError(
                f"--years {shorten(arguments.years)} is no year such as 1997, and no span such as 1990-1999"
            )
        years = int(match[1]), int(match[2] or match[1])
    return Filter(years, tuple(arguments.by or ()), arguments.complete, arguments.result or "")


# --- reading ---------------------------------------------------------------------------------------------------------


def _read(sources: list[str], strict: bool, summary: Summary) -> list[Game]:
    games: list[Game] = []
    for name in sources:
        try:
            games += read_source(name, None if strict else summary.report, sys.stdin.buffer.read)
        except OSError as error:
            raise UsageError(f"{name!r} cannot be read: {error.strerror or error}") from None
    summary.read = len(games) + summary.bad
    return games


def _wanted(games: list[Game], wanted: Filter, distinct: bool, summary: Summary) -> list[Game]:
    kept: list[Game] = []
    seen: set[tuple[bytes, ...]] = set()
    for game in games:
        reason = wanted.why_not(game)
        if not reason and distinct:
            key = symmetric_key(game)
            reason = "there already" if key in seen else ""
            seen.add(key)
        if reason:
            summary.left_out[reason] += 1
        else:
            kept.append(game)
    return kept


# --- writing ---------------------------------------------------------------------------------------------------------


def _write(games: list[Game], out: str, arguments: Namespace, summary: Summary) -> int:
    """Write the games, corrected first if that was asked for; how many games or positions there are."""
    if arguments.correct is None:
        texts = _positions(games) if arguments.to == "obf" else _texts(games, arguments, summary)
        _put(texts, out, summary)
        return len(texts)
    from othello_nn.collection.correct import Solutions

    with Solutions(None if out == STDIN else Path(out + SOLVED)) as solutions:
        games = _corrected(games, arguments, solutions, summary)
        if arguments.to == "obf":
            texts = _solved_positions(games, arguments.correct, solutions)
        else:
            texts = _texts(games, arguments, summary)
        _put(texts, out, summary)
        solutions.remove()
    return len(texts)


def _texts(games: list[Game], arguments: Namespace, summary: Summary) -> list[str]:
    """Each game as it is written; those that the format has no place for are counted."""
    if arguments.cut:
        from othello_nn.collection.correct import cut_short

        games = [cut_short(game) for game in games]
    formats: dict[str, Callable[[list[Game]], str]]
    formats = {"ggf": format_ggf, "sgf": format_sgf, "txt": format_transcripts}
    texts = []
    for game in games:
        if arguments.to == "txt" and (game.start != Position.start() or not game.moves):
            if arguments.strict:
                raise Failure("a game does not start from the usual position with a move; write .ggf or .sgf")
            summary.left_out["from another start, which a transcript cannot say"] += 1
            continue
        texts.append(formats[arguments.to]([game]))
    return texts


def _positions(games: list[Game]) -> list[str]:
    """Every position of the games in which there is a choice or a move to make, without scores; each once."""
    found = dict.fromkeys(position for game in games for position in game.positions() if position.legal_mask)
    return [format_obf([ObfEntry(position)]) for position in found]


def _solved_positions(games: list[Game], empties: int, solutions: Solutions) -> list[str]:
    """The position of each game that was solved, each once, with a best move and its score."""
    from othello_nn.collection.correct import point_of, solved_at

    points = dict.fromkeys(point for game in games if (point := point_of(game, empties)) and not point.is_over)
    solved = ((point, solved_at(point, solutions)) for point in points)
    return [format_obf([ObfEntry(point, {} if one.move == PASS else {one.move: one.score})]) for point, one in solved]


def _put(texts: list[str], out: str, summary: Summary) -> None:
    if not texts:
        raise Failure(f"there is nothing to write of {_of_read(summary)}")
    try:
        data = "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise Failure(f"a name holds half a character ({error.reason}); correct it first") from None
    if out == STDIN:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        write_whole(Path(out), data)
    except OSError as error:
        raise Failure(f"{out!r} could not be written: {error.strerror or error}") from None


# --- the solver ------------------------------------------------------------------------------------------------------


def _corrected(games: list[Game], arguments: Namespace, solutions: Solutions, summary: Summary) -> list[Game]:
    """The games with their exact results; those that stopped before there was something to solve stay as they are."""
    from othello_nn.cli.positions import best_evaluator, sign_of
    from othello_nn.collection.correct import corrected, solve_all, unsolved

    empties, known = arguments.correct, len(solutions)
    if known:
        note(PLAY, f"{known:,} positions were solved already: {solutions.path}")
    positions = unsolved(games, empties, solutions)
    if positions:
        begun, total = time.monotonic(), len(positions)
        with progress(f"solving at {empties}", total, plain_seconds=PLAIN_SECONDS) as bar:
            for done in solve_all(positions, solutions, best_evaluator(), arguments.jobs):
                left = (time.monotonic() - begun) * (total - done) / done
                text = f"solving at {empties}: {done:,} of {total:,}, {_time(left)} left"
                bar.update(done, f"solving at {empties}" if sys.stderr.isatty() else text)
    found, counts = [], Counter(solved=len(positions), known=known)
    for game in games:
        new = corrected(game, empties, solutions)
        if new is None:
            counts["too_short"] += 1
            found.append(game)
            continue
        counts["games"] += 1
        assert new.theoretical_result is not None
        if game.result is not None:
            counts["other_result"] += game.result != new.theoretical_result
            counts["other_winner"] += sign_of(game.result) != sign_of(new.theoretical_result)
        listed = game.theoretical_result, game.theoretical_empties
        counts["listed_otherwise"] += listed[1] == new.theoretical_empties and listed[0] != new.theoretical_result
        found.append(new)
    names = ("games", "other_result", "other_winner", *_CORRECTED, "solved", "known")
    summary.corrected = {"empties": empties} | {name: counts[name] for name in names}
    return found


def _time(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


# --- what is said ----------------------------------------------------------------------------------------------------


def _of_read(summary: Summary) -> str:
    parts = [f"{summary.bad:,} cannot be used"] if summary.bad else []
    parts += [f"{count:,} {reason}" for reason, count in summary.left_out.items()]
    return f"{summary.read:,} that were read" + (f" ({'; '.join(parts)})" if parts else "")


def _tell(summary: Summary, out: str, written: int, seconds: float, as_json: bool) -> None:
    """What became of the games: on stdout, unless the games are there."""
    if as_json:
        fields: dict[str, Any] = {"out": out, "read": summary.read, "bad": summary.bad, "written": written}
        fields |= {"left_out": dict(summary.left_out), "correct": summary.corrected or None, "seconds": seconds}
        print(json.dumps(fields))
        return
    place = sys.stderr if out == STDIN else sys.stdout
    print(f"{'stdout' if out == STDIN else out}: {written:,} written of {_of_read(summary)}", file=place)
    if found := summary.corrected:
        others = (
            f"{found['other_result']:,} have another result than on the board, {found['other_winner']:,} another winner"
        )
        print(f"{found['games']:,} games solved from {found['empties']} empties on; {others}", file=place)
        for name, what in _CORRECTED.items():
            if found[name]:
                print(f"{found[name]:,} {what}", file=place)


def _count(games: list[Game], arguments: Namespace) -> int:
    from othello_nn.cli.statistics import statistics_lines, statistics_svg
    from othello_nn.collection.statistics import statistics_of

    found = statistics_of(games)
    if arguments.picture:
        write_picture(arguments.picture, statistics_svg(found))
    print(json.dumps(found.as_dict()) if arguments.json else "\n".join(statistics_lines(found)))
    return 0
