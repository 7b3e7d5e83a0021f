"""A loop nest laid over the array of one core: unrolling, tiles, and the exact cost of a given mapping."""
