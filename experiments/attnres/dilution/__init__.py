"""What share of a read each sublayer's output has, by depth: at the start and trained."""
