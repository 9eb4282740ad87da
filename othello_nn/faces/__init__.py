"""Where people and programs meet the engine. ``cli.py`` is the command line, one module for each group of commands."""
