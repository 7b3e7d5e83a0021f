"""A graph on an accelerator in time: fusion groups, placement, two-pass scheduler, memory, result."""
