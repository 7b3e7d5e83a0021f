"""What no plan of a graph on an accelerator can be below: time, joules, off-chip bytes. See ``docs/bounds.md``."""
