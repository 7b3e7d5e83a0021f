"""One operator on one core: the exact cost of a mapping, the search for the best, and an operator alone with DRAM."""
