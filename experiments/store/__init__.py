"""Run folders, resumed work, provenance and progress."""
