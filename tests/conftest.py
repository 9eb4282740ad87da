"""What all tests need: Ctrl-C that works.

A program started in the background by a shell ignores SIGINT, and so do the programs it starts; some tests press Ctrl-C
in such programs.
"""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
