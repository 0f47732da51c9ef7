"""Weights of models that others know: read into a decoder, and written so that theirs read them."""
