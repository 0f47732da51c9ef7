"""For the time being: the paper's name."""

PAPER = "ResFormer"
OURS = f"this project, on the setting of {PAPER}"
