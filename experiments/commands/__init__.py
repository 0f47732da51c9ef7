"""The functions that a user calls: train one model, import, generate, evaluate, probe, set side by side."""
