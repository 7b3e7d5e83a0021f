"""Exploring hardware: a space of accelerators and workloads, searched point by point, every point kept."""
