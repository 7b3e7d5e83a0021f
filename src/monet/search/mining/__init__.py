"""Mining: the accelerator to build for some workloads, under an area and a power limit. See ``docs/mining.md``."""
