"""Training dynamics of the assumed-copy toy: plateaus, when they are left, and how many starts reach the optimum."""
