"""Many small decoders of one shape trained as one: what `icl.models` computes one by one, fast."""
