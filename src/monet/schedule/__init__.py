"""A graph on an accelerator in time: fusion groups, placement, two-pass scheduler, memory, result."""

from monet.schedule.result import Result

__all__ = ["Result"]
