"""The paper's ablations of depth attention, as signs."""
