"""The rules of ONNX operators, one file per family. Importing this package registers them all."""

from importlib import import_module
from pkgutil import iter_modules

from monet.frontends.onnx.translation import RULES

__all__ = ["RULES"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
