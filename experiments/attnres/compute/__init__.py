"""Loss against compute: PreNorm, Block and Full, and what decides which of them is ahead."""
