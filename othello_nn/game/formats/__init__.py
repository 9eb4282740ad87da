"""Games in files, a module for each format. Read ``files.py`` first, which picks the right one."""
