"""Attention Residuals: what is bounded, and by what."""
