"""Accelerators: description files, the technology that prices them, presets, and the resolved form others read."""

from monet.hardware.accelerator import Accelerator, CoreInstance, Dram, Link, Memory
from monet.hardware.core import Axis, Core, MemoryLevel
from monet.hardware.errors import DescriptionError, DescriptionProblem, HardwareError
from monet.hardware.loading import load_description, load_hardware, preset_names, replace, schema
from monet.hardware.rates import Rate

__all__ = [
    "Accelerator", "Axis", "Core", "CoreInstance", "DescriptionError", "DescriptionProblem", "Dram", "HardwareError",
    "Link", "Memory", "MemoryLevel", "Rate", "load_description", "load_hardware", "preset_names", "replace", "schema",
]  # fmt: skip
