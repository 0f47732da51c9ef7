"""Attention concentration, sinks, drains and peaks by layer, with and without the value residual."""
