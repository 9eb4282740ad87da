"""A training as a person sees it. Read ``logger.py`` first: curves, pictures and the line at the terminal."""
