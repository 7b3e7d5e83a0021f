"""Stages and micro-batches in time, and where layers are cut."""
