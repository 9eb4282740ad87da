"""The rules at machine speed, in Numba and LLVM. Read ``jit.py`` for how kernels are compiled, ``bits.py`` for the
instructions, then ``board.py``; ``chance.py`` draws random numbers and moves, ``parallel.py`` shares out the work."""
