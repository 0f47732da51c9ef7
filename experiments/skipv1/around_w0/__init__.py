"""Around W0 != 0: where the printed theorem holds."""
