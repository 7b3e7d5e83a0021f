"""Graph → Graph: precision, attention, freezing, low-rank adapters, what is saved."""
