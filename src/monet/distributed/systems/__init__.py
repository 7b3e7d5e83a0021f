"""Devices and the network between them: descriptions, topology, what collectives cost."""
