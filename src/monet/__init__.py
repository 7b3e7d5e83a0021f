"""monet."""
