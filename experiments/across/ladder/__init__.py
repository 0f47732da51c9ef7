"""The ladder: in-context regression from the theorem's toy to a small decoder, one ingredient at a time."""
