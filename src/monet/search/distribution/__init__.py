"""Distribution: which parallel plan of a model on a system is best."""
