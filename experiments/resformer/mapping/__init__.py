"""How near the block form is to cross-layer attention in trained decoders, and what trains best."""
