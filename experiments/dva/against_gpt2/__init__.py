"""Dynamic Value Attention against GPT-2: the paper's comparison, matched, and taken apart."""
