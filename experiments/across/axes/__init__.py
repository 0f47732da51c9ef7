"""Trained on one law of prompts and tested on others: where the toy and the ladder have exact predictions."""
