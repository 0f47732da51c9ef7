"""In-context regression from the theorem's toy to a full-size model, one ingredient at a time."""
