"""Equal layers: the same network with fewer of them, and what its schedule says of the schedule of all."""
