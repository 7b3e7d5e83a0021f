"""Hostile input: random damage to everything that a user can give, and what may come of it."""
