"""Claims on hyper-connections, by section."""
