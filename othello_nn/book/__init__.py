"""The opening book: positions up to symmetry with values and best moves, in one file.

Reading order: ``canonical.py`` (a position as a key), ``store.py`` (the file), ``graph.py`` (what a value is, and how a
new one reaches all positions before it), ``answer.py`` (what a player is told), ``grow.py`` (where positions come
from). Nothing here searches: who judges positions is handed in.
"""

from othello_nn.book.answer import BookMove, OpenBook
from othello_nn.book.graph import Book, Judge, Judgement
from othello_nn.book.store import BookError

__all__ = ["Book", "BookError", "BookMove", "Judge", "Judgement", "OpenBook"]
