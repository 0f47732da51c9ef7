"""Crosslayer's mathematics: what must be true, and by how much.  numpy, scipy and sympy; never torch."""
