"""The campaign: one pool of text trainings, from which many questions are answered."""
