"""What the steps of operators cost on their cores, each distinct one computed once."""
