"""What ResFormer's residual carries, from which layer, and with which weight (Figs. 6, 7, 9, 16 and 17)."""
