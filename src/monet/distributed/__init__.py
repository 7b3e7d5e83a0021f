"""Distributed training: systems of devices, parallel plans as graph transforms, collectives, pipelines."""
