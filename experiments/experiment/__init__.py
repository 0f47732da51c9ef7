"""The shape of an experiment, and how it is carried through."""
