"""Mappings and operators as people write and read them."""
