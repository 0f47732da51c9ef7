"""The vocabulary: what a variant is, as data, and what follows from it.  Standard library only."""
