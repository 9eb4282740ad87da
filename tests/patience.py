"""How long a test waits. A machine that is busy with other things must not fail a test."""

HANG_SECONDS = 60.0
"""What takes longer hangs. Use it only where a hang would take far longer still, and everything else far less."""
