"""Compiled kernels: decide every transfer, its source and order; replay them in time."""
