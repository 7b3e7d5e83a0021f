"""A parallel plan as a transform of the forward graph: what every rank of every stage runs."""
