"""The regression prompts: their sizes, their moments, and the exact losses of regressing on them."""
