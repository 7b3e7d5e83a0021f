"""Searches around the scheduler: fusion, allocation, checkpointing, hardware. They share one cache and one record."""
