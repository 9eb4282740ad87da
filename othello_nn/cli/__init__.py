"""The command line. Read ``main.py`` first, then the module of a command; ``terminal/`` is the game at the keyboard,
``engine/`` our player behind another program's board."""
