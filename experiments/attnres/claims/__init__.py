"""Entries of the claims ledger, one file a family."""
