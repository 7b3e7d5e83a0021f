"""The console that commands print to: its width, and texts as they are."""

from __future__ import annotations

import os
import shutil

from rich.console import Console

PIPE_WIDTH = 140
FALLBACK_WIDTH = 80
LEAST_WIDTH = 32  # a name of 12 characters and a figure with its unit: what is narrower is not a terminal


def screen(*, errors: bool = False, quiet: bool = False) -> Console:
    """A console for tables. Texts are printed as they are: no markup, no colours of its own.

    A pipe has no width of its own and gets 140 columns, so that rows stay rows. A width that is none (``COLUMNS=0``) is
    not taken for one.
    """
    made = Console(stderr=errors, quiet=quiet, markup=False, highlight=False, emoji=False)
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        made.width = max(LEAST_WIDTH, int(given))
    elif made.is_terminal:
        made.width = max(LEAST_WIDTH, shutil.get_terminal_size((FALLBACK_WIDTH, 24)).columns)
    else:
        made.width = PIPE_WIDTH
    return made
