"""What a search over parallel plans found, in the terminal: the best plans, the front, and why the best is best."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from monet.distributed.plan import ParallelPlan
from monet.report.columns import Column, rows_table
from monet.report.distributed import parts_of, plan_words, time_table, title_of
from monet.report.quantities import nbytes, percent, seconds
from monet.report.table import Heading, TextTable
from monet.search.distribution.search import ONE_THING, Distribution, Tried, neighbours, same_but


def _stages(plan: ParallelPlan) -> str:
    schedule = f" {plan.pipeline_schedule}" if plan.pipeline_schedule != "1f1b" else ""
    return f"{plan.pipeline}" + (f" × {plan.interleave}" if plan.interleave > 1 else "") + schedule


PLANS: tuple[Column[Tried], ...] = (
    Column("data", "", lambda one: f"{one.plan.data}"),
    Column("tensor", "", lambda one: f"{one.plan.tensor}" + (" + seq" if one.plan.sequence_parallel else "")),
    Column("pipeline", "", lambda one: _stages(one.plan)),
    Column("micro", "n", lambda one: one.plan.micro_batch),
    Column("shard", "", lambda one: one.plan.shard, holds="words"),
    Column("recompute", "", lambda one: str(one.plan.recompute), holds="words"),
    Column("offload", "", lambda one: one.plan.offload, holds="words"),
    Column("step", "s", lambda one: one.result.latency_s),
    Column("MFU", "%", lambda one: one.result.mfu),
    Column("memory", "B", lambda one: one.result.peak_memory_bytes),
    Column("energy", "J", lambda one: one.result.energy_j),
    Column("bubble", "%", lambda one: one.result.time.bubble / one.result.latency_s),
    Column("exposed", "%", lambda one: sum(one.result.time.communication.values()) / one.result.latency_s),
    Column("again", "%", lambda one: one.result.time.recomputation / one.result.latency_s),
)  # fmt: skip


def counts_line(found: Distribution) -> str:
    """How many plans there were, and what became of them."""
    illegal = sum(found.illegal.values())
    said = [f"{len(found.tried):,} costed", f"{found.bounded:,} left out by their bounds"]
    said += [f"{found.too_large:,} do not fit memory"] if found.too_large else []
    said += [f"{illegal:,} cannot be cut so"] if illegal else []
    said += [f"{found.not_looked_at:,} not looked at"] if found.interrupted else []
    return f"{found.plans:,} plans: {', '.join(said)}" + ("; interrupted, the best so far" if found.interrupted else "")


def why(found: Distribution) -> TextTable | None:
    """What each single change of the best plan would do, and where time goes then."""
    best = found.best
    if best is None:
        return None
    rows = []
    for name, other in neighbours(found.tried, best).items():
        before, after = dict(parts_of(best.result.time)), dict(parts_of(other.result.time))
        moved = {part: after.get(part, 0.0) - before.get(part, 0.0) for part in {**before, **after}}
        most = max(moved, key=lambda part: moved[part])
        change = other.result.latency_s / best.result.latency_s - 1
        memory = nbytes(other.result.peak_memory_bytes)
        words = f"{most} {seconds(moved[most])} more" if moved[most] > 0 else "nothing takes longer"
        rows.append((_instead(name, other.plan, best.plan), f"{100 * change:+.1f} %".replace("-", "−"), memory, words))
    headings = (Heading("instead", "prose"), "step", "memory", Heading("because", "prose"))
    return TextTable("Why: the best plans that differ in one thing", headings, rows) if rows else None


def _instead(name: str, plan: ParallelPlan, best: ParallelPlan) -> str:
    """What a plan has instead; where no plan that differs in this alone was costed, what else it has."""
    follows = () if same_but(plan, best, name) else tuple(each for each in ("data", *ONE_THING) if each != name)
    others = [_words(each, plan) for each in follows if getattr(plan, each) != getattr(best, each)]
    return _words(name, plan) + (f", with {', '.join(others)}" if others else "")


def _words(name: str, plan: ParallelPlan) -> str:
    value = getattr(plan, name)
    if isinstance(value, bool):
        return name.replace("_", " ") if value else f"no {name.replace('_', ' ')}"
    return f"{name.replace('_', ' ')} {value}"


def render(found: Distribution, top: int) -> RenderableType:
    """Everything, for a screen."""
    lines: list[RenderableType] = [Text(counts_line(found))]
    for reason, number in sorted(found.illegal.items(), key=lambda one: -one[1])[:3]:
        lines.append(Text(f"  {number:,}: {reason}", style="dim"))
    best = found.best
    if best is None:
        short = found.least_short
        said = (
            f"; least short: {plan_words(short.result)}: {short.result.reason.message}"
            if short and short.result.reason
            else ""
        )
        none = "no plan that was looked at fits" if found.interrupted else "no plan fits"
        return Group(*lines, Text(f"{none}{said}", style="red"))
    lines += [
        Text(),
        Text(f"best by {found.objective}: {plan_words(best.result)}", style="bold"),
        time_table(best.result),
    ]
    table = why(found)
    lines += [Text(), table] if table else []
    lines += [Text(), rows_table("Best plans", PLANS, found.tried[:top])]
    if len(found.front) > 1:
        lines += [Text(), rows_table("Front of time, memory and energy", PLANS, found.front[:top])]
    return Group(*lines)


def headline(found: Distribution) -> str:
    """The best in a line."""
    best = found.best
    return (
        "no plan fits"
        if best is None
        else f"{title_of(best.result)}: {seconds(best.result.latency_s)}, MFU {percent(best.result.mfu)}"
    )
