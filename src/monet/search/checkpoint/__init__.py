"""Activation checkpointing: what to keep from forward to backward, and what to compute again."""
