"""A plan expanded into the arrays that the simulation walks: steps, operand blocks, buffers."""
