"""The operator table. Importing this package registers every kind; one file holds one family of operators."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
