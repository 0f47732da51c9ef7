"""Under which conditions the entries on the theorem hold: what `assumes` says again and again."""

W0_ZERO = "W* ~ N(0, I), x ~ N(0, I), Gaussian noise; Assumption 1"
ANY_W0 = "W* ~ N(W0, I), x ~ N(0, I), Gaussian noise; Assumption 1; minima over A, B, K and W"
