"""Attention Residuals: claims and experiments."""
