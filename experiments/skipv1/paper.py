"""For the time being: the paper's name."""

PAPER = "SkipV1Former"
OURS = f"this project, on the setting of {PAPER}"
