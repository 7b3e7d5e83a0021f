"""Fusion search: which operators of a step run as a group, in what tiles, so that the whole step costs least."""
