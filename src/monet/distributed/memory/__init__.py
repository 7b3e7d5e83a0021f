"""Bytes on a device over a step, and what would make a plan fit."""
