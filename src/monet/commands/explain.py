"""``monet explain``: why a step takes this long, and which single hardware parameter would help most."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from monet.commands.progress import bars
from monet.commands.sensitivity import Effect, changes, effects
from monet.errors import MonetError
from monet.hardware.drawing import parameter_text
from monet.report.criticality import CriticalWork, critical_table, critical_work, one_more_table
from monet.report.explanation import MEANING, busiest, info, sentences
from monet.report.files import check_outputs, write_json
from monet.report.info import critical_path, kernels, time_partition
from monet.report.quantities import percent, seconds
from monet.report.result_file import read_result
from monet.report.screen import screen
from monet.report.table import Bar, Heading, TextTable
from monet.report.terminal import time_table, title_text
from monet.request import Request
from monet.schedule.result import Result
from monet.schedule.workload import workload_of


def explain(
    result: Annotated[str, typer.Argument(metavar="RESULT.json", help="What monet run --json wrote.")],
    what_if: Annotated[bool, typer.Option("--what-if/--no-what-if", help="Double every hardware parameter in turn and evaluate again.")] = True,
    top: Annotated[int, typer.Option(help="How many operators and parameters to show.", min=1)] = 10,
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write JSON to FILE, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write a self-contained HTML page.")] = "",
) -> None:  # fmt: skip
    """Say why a step takes this long, and which single hardware parameter would help most."""
    check_outputs({"--report": report}, {"--json": json}, [result])
    found = read_result(result)
    if not found.feasible:
        raise MonetError(
            f"{result}: infeasible, so there is no time to explain: {found.reason and found.reason.message}"
        )
    console = screen(quiet=json == "-")
    ran, said = _kernels(found)
    effects, reason = _effects(found) if what_if else ([], "not asked for")
    work = _critical(found)
    if json:
        critical = {"criticality": work.to_json() if work else None}
        tried = {"what_if": [effect.as_dict() for effect in effects], "what_if_missing": reason}
        write_json(json, _info(found, ran, said) | critical | tried)
    if report:
        _write_page(report, found, said, work, effects, reason, top)
    _print(console, found, said, top)
    if ran:
        console.print(Text(), _kernel_table(ran, top), sep="\n")
    if work:
        console.print(Text(), critical_table(work, top), Text(), one_more_table(work), sep="\n")
    if effects:
        console.print(Text(), _effect_table(effects, top), sep="\n")
    elif what_if:
        console.print(f"\nWhat if: not evaluated: {reason}", style="dim")


def _critical(result: Result) -> CriticalWork | None:
    """What is critical, if the request inside the result can be made again."""
    try:
        request = Request.of(result)
        return critical_work(workload_of(request.graph()), request.accelerator())
    except MonetError:
        return None


def _kernels(result: Result) -> tuple[list[kernels.KernelRow], list[str]]:
    """Kernels of a GPU and what there is to say of them; nothing for other devices, or a result of unknown making."""
    try:
        found = kernels.kernels(result)
        return found, kernels.sentences(result, found)
    except MonetError:
        return [], []


def _info(result: Result, ran: list[kernels.KernelRow], said: list[str]) -> dict[str, Any]:
    found = info(result)
    if said:
        found["explanation"] = [*found["explanation"], *said]
        found["kernels"] = kernels.info(ran)
    return found


def _write_page(
    path: str,
    result: Result,
    more: list[str],
    work: CriticalWork | None,
    effects: list[Effect],
    reason: str,
    top: int,
) -> None:
    """The same sentences and tables as a page, with every parameter that was doubled."""
    from monet.report.html.study import table_panel, words_panel, write_study

    said = [*sentences(result), *more, time_partition.meaning(result), *([f"What if: {reason}"] if reason else [])]
    panels = [words_panel("Why it takes this long", said)]
    panels += [table_panel(made, half=True) for made in (time_table(result), _busy_table(result, top))]
    panels.append(table_panel(_path_table(result, top)))
    if work:
        panels += [table_panel(made, half=True) for made in (critical_table(work, top), one_more_table(work))]
    if effects:
        about = "Each parameter twice as large, the whole step evaluated again."
        panels.append(table_panel(_effect_table(effects, len(effects)), about))
    write_study(path, f"Why {result.model} takes {seconds(result.latency_s)} on {result.hardware}", [], panels)


def _effects(result: Result) -> tuple[list[Effect], str]:
    """Effects of doubling each parameter; or none, with the reason."""
    try:
        request = Request.of(result)
        with bars() as progress:
            task = progress.add_task("what if", total=len(changes(request.describe())))

            def step(path: str) -> None:
                progress.update(task, advance=1, description=path)

            found = effects(request, result, step)
    except MonetError as error:
        return [], str(error)
    if found and all(effect.latency is None for effect in found):
        return [], found[0].reason
    return found, ""


def _print(console: Console, result: Result, more: list[str], top: int) -> None:
    console.print(title_text(result))
    for sentence in (*sentences(result), *more):
        console.print(f"  {sentence}")
    console.print(Text())
    console.print(time_table(result))
    for block in (_path_table(result, top), _busy_table(result, top)):
        console.print(Text())
        console.print(block)


def _path_table(result: Result, top: int) -> TextTable:
    whole = result.latency_s or 1.0
    kinds = {MEANING.get(kind, kind): took for kind, took in critical_path.shares(result).items()}
    operators = dict(list(critical_path.by_operator(result).items())[:top])
    rows = [(name, seconds(took), percent(took / whole)) for name, took in (*kinds.items(), *operators.items())]
    styles = [""] * len(kinds) + ["dim"] * len(operators)
    return TextTable("Critical path, by what happens and by operator", ("what", "time", "share"), rows, styles)


def _busy_table(result: Result, top: int) -> TextTable:
    rows = [(name, percent(share), Bar(share)) for name, _, share in busiest(result)[:top]]
    return TextTable("Busiest resources", ("resource", "busy", Heading("", "bar")), rows)


def _kernel_table(ran: list[kernels.KernelRow], top: int) -> TextTable:
    every = kernels.like_kernels(ran)
    rows = [
        (
            some.rows[0].operator.name,
            f"{len(some.rows):,}",
            kernels.text(some.rows[0].kernel),
            f"{some.rows[0].blocks:,}",
            f"{some.rows[0].sums:,}" if some.rows[0].sums > 1 else "",
            f"{some.rows[0].kernel.waves:,}",
            percent(some.rows[0].kernel.tail),
            seconds(some.latency_s),
            percent(some.tensor_core_use),
        )
        for some in every[:top]
    ]
    more = f"{len(every) - top} more" if len(every) > top else ""
    headings = ("product", "alike", "tile", "blocks", "split-K", "waves", "tail", "time", "of peak")
    return TextTable("Kernels, those that are alike together, most time first", headings, rows, more=more)


EFFECTS = ("parameter", "from", "to", "time", "energy", "area")


def _effect_table(effects: list[Effect], top: int) -> TextTable:
    shown = [effect for effect in effects if effect.latency is not None]
    rows = [
        (
            effect.change.path,
            parameter_text(effect.change.path, effect.change.before),
            parameter_text(effect.change.path, effect.change.after),
            change_text(effect.latency),
            change_text(effect.energy),
            change_text(effect.area),
        )
        for effect in shown[:top]
    ]
    refused = sum(effect.latency is None for effect in effects)
    rest = len(effects) - min(top, len(shown))
    more = f"{rest} more, {refused} not possible" if rest else ""
    return TextTable("What if one parameter were twice as large", EFFECTS, rows, more=more)


def change_text(ratio: float | None) -> str:
    """A ratio as a signed change: −12.3 %."""
    if ratio is None:
        return ""
    change = 100 * (ratio - 1)
    return "±0" if abs(change) < 0.005 else f"{change:+.2f} %".replace("-", "−")
