"""For the time being: the paper's name."""

PAPER = "Dynamic Value Attention"
OURS = f"this project, on the setting of {PAPER}"
