"""Values that print in a line, show as a table in a notebook, and are a DataFrame where pandas is."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Displayed:
    """Gives a dataclass (made with ``repr=False``) its ``repr``, its view in a notebook, and ``to_dataframe``. How each
    kind looks stands in ``report/notebook.py``, above this stage."""

    def __repr__(self) -> str:
        return str(import_module("monet.report.notebook").line(self))

    def _repr_html_(self) -> str:
        return str(import_module("monet.report.notebook").page(self))

    def to_dataframe(self, what: str = "") -> Any:
        """A ``pandas.DataFrame`` of its rows; ``what`` names which where there are several tables (those of a result:
        operators, phases, cores, links, memory, timeline). Needs the extra ``monet-train[pandas]``."""
        return import_module("monet.report.dataframe").dataframe(self, what)
