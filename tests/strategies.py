"""What the tests share: hypothesis strategies (positions and games by random legal play), endings by the thousand, and
makers of WTHOR files.

The default run is the same every time. To look further, set OTHELLO_EXAMPLES: with `OTHELLO_EXAMPLES=2000` each
property is tried on 2,000 fresh examples.
"""

import os
import random
import struct

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from othello_nn.game import PASS, Position
from othello_nn.game.record import Game, MoveNote
from othello_nn.game.rules import START_MOVER, START_OPPONENT, squares_in

_EXAMPLES = os.environ.get("OTHELLO_EXAMPLES")

# No deadline: the machines that run this are shared. No database: tests leave nothing behind in the working directory.
quick = settings(max_examples=int(_EXAMPLES or 50), derandomize=_EXAMPLES is None, deadline=None, database=None)

# 59 moves with two passes; black wins 53-10 with one square empty, so by 44.
FINISHED = (
    "e6d6c4f6f7f8d7c6e7f4b6a6g5d8g7h4b7h7h8g6h6c5e3f5g8c7c8f2e8h5e2d2d3c2f1b8g2b4g4e1f3h1a3g1a8a4b5a7b3b2a5c3a1b1a2h2"
    "g3h3c1"
)

masks = st.integers(0, 2**64 - 1)
symmetry_numbers = st.integers(0, 7)


def play_out(choices: list[int], start: Position | None = None) -> tuple[Position, list[int]]:
    """Play one move for each choice, counted round the legal moves, with passes where they are due."""
    position = Position.start() if start is None else start
    moves: list[int] = []
    for choice in choices:
        legal = position.legal_moves
        if not legal and position.is_over:
            break
        move = legal[choice % len(legal)] if legal else PASS
        position = position.play(move)
        moves.append(move)
    return position, moves


def choices(min_plies: int = 0, max_plies: int = 70) -> st.SearchStrategy[list[int]]:
    """Choices for `play_out`. They come from a drawn seed: drawn one by one, nearly all would be small and alike."""
    return st.builds(
        lambda seed, plies: random.Random(seed).choices(range(60), k=plies),
        st.integers(0, 2**32 - 1),
        st.integers(min_plies, max_plies),
    )


def positions(min_plies: int = 0, max_plies: int = 70) -> st.SearchStrategy[Position]:
    return choices(min_plies, max_plies).map(lambda drawn: play_out(drawn)[0])


def endings(seed: int, games: int, fewest: int, most: int) -> list[tuple[int, int]]:
    """The (mover, opponent) of random games with `fewest` to `most` empties, also before a pass and at the end.

    Drawing tens of thousands of positions through `Position` would take minutes.
    """
    from othello_nn.kernels.board import flips, legal_moves

    rng = np.random.default_rng(seed)
    found: list[tuple[int, int]] = []
    for _ in range(games):
        mover, opponent = START_MOVER, START_OPPONENT
        while True:
            empties = 64 - (mover | opponent).bit_count()
            if fewest <= empties <= most:
                found.append((mover, opponent))
            squares = squares_in(legal_moves(np.uint64(mover), np.uint64(opponent)))
            if empties < fewest or not (squares or legal_moves(np.uint64(opponent), np.uint64(mover))):
                break
            if squares:
                square = squares[int(rng.random() * len(squares))]
                turned = flips(np.uint64(mover), np.uint64(opponent), square)
                mover, opponent = opponent ^ turned, mover ^ turned ^ 1 << square
            else:
                mover, opponent = opponent, mover
    return found


def scattered(seed: int, boards: int, fewest: int, most: int) -> list[tuple[int, int]]:
    """Boards filled at random but for `fewest` to `most` squares, from all the mover's to all the opponent's.

    No game leads to most of them, and they are full of passes, early ends and wipe-outs.
    """
    rng = random.Random(seed)
    found = []
    for _ in range(boards):
        squares = rng.sample(range(64), 64 - rng.randint(fewest, most))
        share = rng.choice((0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98))
        mover = sum(1 << square for square in squares if rng.random() < share)
        found.append((mover, sum(1 << square for square in squares) ^ mover))
    return found


names = st.text(max_size=12)
numbers = st.none() | st.floats(-1e6, 1e6, allow_nan=False)
notes = st.none() | st.builds(MoveNote, numbers, numbers)


@st.composite
def games(draw: st.DrawFn, start: st.SearchStrategy[Position] | None = None) -> Game:
    """A game with everything a record may hold: any start, any ending, names with brackets and backslashes."""
    first = draw(positions(max_plies=20) if start is None else start)
    final, moves = play_out(draw(choices()), first)
    ending = draw(st.sampled_from(["", "resigned", "time", "agreed"]))  # forfeit is resigned in GGF: tested apart
    result: int | None = None
    if ending in ("resigned", "time"):
        result = draw(st.integers(-64, 64))
    elif not final.is_over:
        result = draw(st.none() | st.integers(-64, 64))
    clock = draw(names | st.just("05:00//02:00"))
    solved = draw(st.none() | st.tuples(st.integers(0, 60), st.integers(-64, 64)))
    return Game(
        start=first,
        moves=tuple(moves),
        black=draw(names),
        white=draw(names),
        date=draw(names),
        place=draw(names),
        event=draw(names),
        comment=draw(names),
        result=result,
        ending=ending,
        notes=tuple(draw(notes) for _ in moves) if draw(st.booleans()) else (),
        black_rating=draw(numbers),
        white_rating=draw(numbers),
        black_clock=clock,
        white_clock=draw(st.just(clock) | names),
        variant=draw(st.sampled_from(["", "s8r18"])),
        theoretical_empties=None if solved is None else solved[0],
        theoretical_result=None if solved is None else solved[1],
    )


plain_games = games(start=st.just(Position.start()))


def wthor(records: list[bytes], year: int = 1997, size: int = 8, kind: int = 0, depth: int = 0) -> bytes:
    return struct.pack("<4BIHH4B", 19, 99, 12, 31, len(records), 0, year, size, kind, depth, 0) + b"".join(records)


def wthor_game(
    transcript: str, discs: int, black: int = 1, white: int = 2, tournament: int = 0, theoretical: int = 32
) -> bytes:
    pairs = zip(transcript[::2], transcript[1::2], strict=True)
    moves = bytes(10 * int(row) + "abcdefgh".index(column) + 1 for column, row in pairs)
    return struct.pack("<HHHBB60s", tournament, black, white, discs, theoretical, moves)


def wthor_names(names: list[str], size: int) -> bytes:
    header = struct.pack("<4BIHH4B", 19, 99, 12, 31, 0, len(names), 0, 0, 0, 0, 0)
    return header + b"".join(name.encode("latin-1").ljust(size, b"\0") for name in names)
