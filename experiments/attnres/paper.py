"""For the time being: the paper's name."""

PAPER = "Attention Residuals"
OURS = f"this project, on the setting of {PAPER}"
