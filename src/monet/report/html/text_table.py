"""A terminal's table as HTML: the same title, headings and rows, for pages and notebooks."""

from __future__ import annotations

import html

from monet.report.table import Bar, Cell, TextTable


def table_html(made: TextTable, css: str = "plain") -> str:
    """The table as one element; figures are right-aligned, bars are drawn."""
    columns = made.columns
    kinds = ["" if column.holds in ("words", "prose") else ' style="text-align:right"' for column in columns]
    head = "".join(f"<th{kind}>{html.escape(column.label)}</th>" for column, kind in zip(columns, kinds, strict=True))
    rows = "".join(
        f"<tr>{''.join(f'<td{kinds[index]}>{_cell(made.cell(row, index))}</td>' for index in range(len(columns)))}</tr>"
        for row in range(len(made.rows))
    )
    more = f"<p>{html.escape(made.more)}</p>" if made.more else ""
    headed = f"<thead><tr>{head}</tr></thead>" if any(column.label for column in columns) else ""
    return f'<table class="{css}">{headed}<tbody>{rows}</tbody></table>{more}'


def _cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        share = 100 * min(1.0, max(0.0, cell.share))
        return f'<div style="width:12em"><div style="width:{share:.1f}%;height:0.8em;background:#3f7fc1"></div></div>'
    return html.escape(str(cell))
