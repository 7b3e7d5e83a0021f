"""Tables for terminals of any width: the one renderer of all commands.

A figure is never cut, whatever the width. Where a table is too wide, in this order: headings take several lines, bars
get shorter and go, names are wrapped at spaces and shortened in the middle; and where that is not enough the table is
folded: its columns stand in several panels, one below the other, each with the first column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

Holds = Literal["figure", "words", "prose", "bar"]

GAP = 2  # characters between columns
BAR, SHORT_BAR = 24, 8
LEAST_KEY, LEAST_WORDS, LEAST_PROSE = 18, 8, 24
INDENT = 2  # of prose that stands below its row


@dataclass(frozen=True, slots=True)
class Heading:
    """Of one column. ``figure``: right-aligned and never cut; ``words``: a name, shortened where need be; ``prose``:
    text in several lines, only as the last column; ``bar``: a share, drawn where there is room."""

    label: str
    holds: Holds = "figure"
    style: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A share drawn as a bar."""

    share: float
    style: str = "cyan"


Cell = str | Text | Bar  # a text may bring its style


@dataclass(frozen=True)
class TextTable:
    """A table without lines. A heading that is only text holds words in the first column, figures in the others; a row
    may be shorter than the headings. ``styles`` are those of rows, ``more`` is a line below."""

    title: str
    headings: Sequence[Heading | str]
    rows: Sequence[Sequence[Cell]]
    styles: Sequence[str] = ()
    more: str = ""

    @property
    def columns(self) -> tuple[Heading, ...]:
        """The headings, all told what they hold."""
        return tuple(
            heading if isinstance(heading, Heading) else Heading(heading, "figure" if index else "words")
            for index, heading in enumerate(self.headings)
        )

    def cell(self, row: int, column: int) -> Cell:
        """What stands there; nothing in the rest of a short row."""
        return self.rows[row][column] if column < len(self.rows[row]) else ""

    @property
    def natural_width(self) -> int:
        """The width at which nothing has to give way."""
        widths = _natural(self)
        return max(sum(widths) + GAP * (len(widths) - 1), 0)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(self.natural_width, options.max_width), self.natural_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        for line in wrapped(self.title, width) if self.title else ():
            yield _line(line, "bold")
        for number, panel in enumerate(panels(self, width)):
            if number:
                yield Text()
            yield from _panel_lines(self, panel, width)
        for line in wrapped(self.more, width) if self.more else ():
            yield _line(line, "dim")


# --- what goes where --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TablePanel:
    """Some columns of a table side by side, with their widths; ``below``: the column whose text follows each row."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]
    below: int | None = None


def panels(table: TextTable, width: int) -> list[TablePanel]:
    """How a table is laid out in a width: whole if it can be, else folded."""
    every = tuple(range(len(table.columns)))
    prose = every[-1] if every and table.columns[-1].holds == "prose" else None
    found = _fitted(table, every, width)
    if found is None and prose is not None:
        found = _fitted(table, every[:-1], width, prose)
    if found is not None:
        return [found]
    kinds = {index: table.columns[index].holds for index in every[1:]}
    order = [index for holds in ("figure", "words") for index in kinds if kinds[index] == holds]
    return _folded(table, order, width, prose)


def _folded(table: TextTable, order: list[int], width: int, prose: int | None) -> list[TablePanel]:
    """Panels of as many columns as fit beside the first one, figures before words, prose in the last."""
    least = _least(table)
    groups: list[list[int]] = [[]]
    for index in order:
        taken = least[0] + sum(GAP + least[column] for column in (*groups[-1], index))
        if groups[-1] and taken > width:
            groups.append([])
        groups[-1].append(index)
    return [
        _panel(table, (0, *group), width, prose if group is groups[-1] else None)
        for group in groups
    ]  # fmt: skip


def _panel(table: TextTable, columns: tuple[int, ...], width: int, below: int | None) -> TablePanel:
    """A panel that takes what it needs: of a column too wide for the screen the first gives way as far as it can."""
    found = _fitted(table, columns, width, below)
    if found is not None:
        return found
    least = _least(table)
    others = tuple(least[index] for index in columns[1:])
    return TablePanel(columns, (max(4, width - sum(others) - GAP * len(others)), *others), below)


def _natural(table: TextTable) -> list[int]:
    """Width of every column where there is room."""
    return [
        BAR
        if heading.holds == "bar"
        else max(cell_len(heading.label), max((cell_len(str(cell)) for cell in _cells(table, index)), default=0))
        for index, heading in enumerate(table.columns)
    ]


def _least(table: TextTable) -> list[int]:
    """Width below which a column cannot go: figures whole, headings wrapped between words."""
    found = []
    for index, (heading, natural) in enumerate(zip(table.columns, _natural(table), strict=True)):
        label = max(map(cell_len, heading.label.split()), default=0)
        if heading.holds == "figure":
            widest = max((cell_len(str(cell)) for cell in _cells(table, index)), default=0)
            found.append(max(label, widest))
        elif heading.holds == "prose":
            found.append(min(natural, LEAST_PROSE))
        elif heading.holds == "bar":
            found.append(0)
        else:
            words = [word for cell in _cells(table, index) for word in str(cell).split()]
            longest = min(max(map(cell_len, words), default=0), LEAST_WORDS if index else LEAST_KEY)
            numbers = (cell_len(word) for word in words if not any(map(str.isalpha, word)))
            found.append(min(natural, max(label, longest, *numbers)))
    return found


def _cells(table: TextTable, index: int) -> Iterator[Cell]:
    return (table.cell(row, index) for row in range(len(table.rows)))


def _fitted(table: TextTable, columns: tuple[int, ...], width: int, below: int | None = None) -> TablePanel | None:
    """These columns in a width, with as little given up as possible; None if they do not fit."""
    natural, least, holds = _natural(table), _least(table), [heading.holds for heading in table.columns]
    shrinking = [dict(zip(columns, (natural[index] for index in columns), strict=True))]
    shrinking.append({index: least[index] if holds[index] == "figure" else natural[index] for index in columns})
    for bar in (SHORT_BAR, 0):
        shrinking.append({index: bar if holds[index] == "bar" else size for index, size in shrinking[1].items()})
    for sizes in shrinking:
        kept = _squeezed(sizes, {index for index in sizes if holds[index] == "prose"}, least, width)
        if kept is not None:
            return TablePanel(tuple(kept), tuple(kept.values()), below)
    flexible = {index for index in columns if holds[index] in ("words", "prose")}
    kept = _squeezed(shrinking[-1], flexible, least, width)
    return None if kept is None else TablePanel(tuple(kept), tuple(kept.values()), below)


def _squeezed(sizes: dict[int, int], flexible: set[int], least: list[int], width: int) -> dict[int, int] | None:
    """Sizes with the widest of some columns made narrower until all fit; columns of no width are gone."""
    kept = {index: size for index, size in sizes.items() if size}
    spare = width - sum(kept.values()) - GAP * (len(kept) - 1)
    while spare < 0:
        able = [index for index in kept if index in flexible and kept[index] > least[index]]
        if not able:
            return None
        widest = max(able, key=lambda index: (kept[index] - least[index], index))
        kept[widest] -= 1
        spare += 1
    return kept


# --- lines ------------------------------------------------------------------------------------------------------------


def shortened(text: str, width: int, tail: int | None = None) -> str:
    """A name in at most so many characters, cut in the middle; of its end ``tail`` are kept, or half."""
    if cell_len(text) <= width:
        return text
    end = min((width - 1) // 2 if tail is None else tail, width - 1)
    return set_cell_size(text, width - 1 - end) + "…" + (set_cell_size(text[::-1], end)[::-1] if end else "")


def best_tail(names: Sequence[str], width: int) -> int:
    """How much of their ends names should keep, so that most of them can be told apart once they are shortened."""
    long = {name for name in names if cell_len(name) > width}
    half = (width - 1) // 2
    choices = sorted(range(max(1, width)), key=lambda tail: abs(tail - half))
    return max(choices, key=lambda tail: len({shortened(name, width, tail) for name in long})) if long else half


def wrapped(text: str, width: int, tail: int | None = None) -> list[str]:
    """Lines of whole words; a word that is too long for a line is shortened."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        if cell_len(paragraph) <= width:
            lines.append(paragraph)
            continue
        lines.append("")
        for word in paragraph.split():
            joined = f"{lines[-1]} {word}" if lines[-1] else word
            if cell_len(joined) <= width:
                lines[-1] = joined
            elif lines[-1]:
                lines.append(shortened(word, width, tail))
            else:
                lines[-1] = shortened(word, width, tail)
    return lines


def bar(share: float, width: int = BAR) -> str:
    """A bar of eighths of a character."""
    eighths = max(0, min(width * 8, round(share * width * 8)))
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)


def _panel_lines(table: TextTable, panel: TablePanel, width: int) -> Iterator[Text]:
    columns = table.columns
    labels = [wrapped(columns[index].label, size) for index, size in _sized(panel)]
    if any(line for label in labels for line in label):
        most = max(map(len, labels))
        parts = [
            [(line, "dim") for line in [""] * (most - len(label)) + label]  # headings stand on the figures
            for label in labels
        ]
        yield from _row_lines(table, panel, parts, "")
    tails = [best_tail([*map(str, _cells(table, index))], size) for index, size in _sized(panel)]
    for row in range(len(table.rows)):
        style = table.styles[row] if row < len(table.styles) else ""
        parts = [
            _cell_lines(table.cell(row, index), size, columns[index].style, tail)
            for (index, size), tail in zip(_sized(panel), tails, strict=True)
        ]
        yield from _row_lines(table, panel, parts, style)
        if panel.below is not None:
            text = str(table.cell(row, panel.below))
            for line in wrapped(text, width - INDENT) if text else ():
                yield _line(" " * INDENT + line, columns[panel.below].style or "dim")


def _sized(panel: TablePanel) -> list[tuple[int, int]]:
    return list(zip(panel.columns, panel.widths, strict=True))


def _cell_lines(cell: Cell, width: int, style: str, tail: int) -> list[tuple[str, str]]:
    if isinstance(cell, Bar):
        return [(bar(cell.share, width), cell.style)]
    own = str(cell.style) if isinstance(cell, Text) else style
    return [(line, own) for line in wrapped(str(cell), width, tail)]


def _row_lines(
    table: TextTable, panel: TablePanel, parts: list[list[tuple[str, str]]], style: str
) -> Iterator[Text]:  # fmt: skip
    for number in range(max(map(len, parts), default=0)):
        line = Text(style=style, no_wrap=True, overflow="ignore")
        for place, (index, size) in enumerate(_sized(panel)):
            text, own = parts[place][number] if number < len(parts[place]) else ("", "")
            room = " " * max(0, size - cell_len(text))
            right = table.columns[index].holds == "figure"
            line.append(" " * (GAP if place else 0) + (room if right else ""))
            line.append(text, style=own or None)
            line.append("" if right else room)
        line.rstrip()
        yield line


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ignore")
