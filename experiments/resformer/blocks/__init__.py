"""Cross-layer attention against its block form: in linear toys, and under a softmax."""
