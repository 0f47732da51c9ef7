"""Trained MHA made into SkipV1Former and trained on: what each way costs at first, and what is left of it at last."""
