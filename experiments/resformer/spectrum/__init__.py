"""Spectra of values by layer, with and without the value residual."""
