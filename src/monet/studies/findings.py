"""What the hardware studies share: points that are evaluated once and kept, and findings with number and verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from monet.report.html import study as page
from monet.report.html.explore import front_figure, importance_figure
from monet.report.table import Heading, TextTable
from monet.schedule.evaluation import model_version
from monet.search.hardware.analysis import objectives_of
from monet.search.hardware.exploration import Progress, explore
from monet.search.hardware.record import Record
from monet.search.hardware.space import Space, load_space
from monet.search.hardware.store import read_store
from monet.sources import cache_directory
from monet.studies.study import Options, Outcome

MODES = {"inference": "inference", "training": "training"}
Points = tuple[Space, list[Record]]
WHOLE = 10  # effort that exhausts a space
POINTS_BY_EFFORT = {1: 24, 2: 100, 3: 150, 4: 250, 5: 400, 6: 600, 7: 1000, 8: 2000, 9: 4000}
EXHAUSTED = 500  # a space up to this size is always evaluated whole, except for a quick look


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement of the paper, what we get, and whether it holds in our model."""

    claim: str
    published: str
    ours: str
    holds: bool
    values: dict[str, Any]

    @property
    def verdict(self) -> str:
        """Whether it holds, in words."""
        return "holds" if self.holds else "does not hold"


def store_of(space: Space, options: Options) -> Path:
    """Where a study keeps its points: the user's cache, by space and model version, so that nothing is done twice."""
    folder = Path(options.store) if options.store else cache_directory() / "studies"
    folder.mkdir(parents=True, exist_ok=True)
    version = model_version().replace("/", "-").replace(" ", "")
    return folder / f"{space.name}-{space.meaning[:8]}-{version}.sqlite"


def points_of(name: str, options: Options) -> Points:
    """The points of a shipped space: a spread of them, or all, at the highest effort or once earlier runs have them.

    What an unfinished exhaustive search has left is no fair sample, so anything between is not taken.
    """
    space = load_space(name)
    size, path = space.size or 0, store_of(space, options)
    whole = options.effort >= WHOLE or (size <= EXHAUSTED and options.effort > 2)
    points = size if whole else min(size, POINTS_BY_EFFORT[options.effort])
    told = [0]

    def show(progress: Progress) -> None:
        if progress.evaluated - told[0] >= 100:
            told[0] = progress.evaluated
            rate = progress.evaluated / progress.seconds
            options.say(f"{name}: {progress.done:,} of {points:,} points, {rate:.1f} a second")

    options.say(f"{name}: {points:,} of {size:,} points, kept in {path}")
    jobs = options.jobs
    found = explore(space, str(path), search="qmc", points=points, seed=0, resume=True, jobs=jobs, show=show)
    if found.interrupted:
        raise KeyboardInterrupt
    with read_store(path) as store:
        return space, list(store.records() if len(store) == size else found.records)


def findings_table(title: str, findings: Sequence[Finding]) -> TextTable:
    """Findings for the terminal."""
    rows = [
        (
            finding.claim,
            Text(finding.verdict, style="green" if finding.holds else "red"),
            finding.published,
            finding.ours,
        )
        for finding in findings
    ]
    names = ("finding", "", "in the paper")
    return TextTable(title, [*(Heading(name, "words") for name in names), Heading("ours", "prose")], rows)


def findings_html(findings: Sequence[Finding]) -> str:
    """Findings for the page."""
    rows = [[found.claim, found.published, found.ours, found.verdict] for found in findings]
    return page.table(("finding", "in the paper", "ours", ""), rows, names=4)


def sample_text(space: Space, records: Sequence[Record]) -> str:
    """How much of a space the figures stand on."""
    size = space.size or 0
    every = "all" if len(records) == size else f"{len(records):,} of"
    lost = sum(not record.ok for record in records)
    return f"{space.name}: {every} {size:,} designs" + (f", {lost:,} without figures" if lost else "")


def variants_outcome(
    title: str, variants: Mapping[str, Points], findings: Callable[[Space, list[Record]], list[Finding]]
) -> Outcome:
    """Findings on every variant of a space, then on the page the fronts of both modes and which parameters matter."""
    found = {name: findings(*points) for name, points in variants.items()}
    samples = {name: sample_text(*points) for name, points in variants.items()}
    panels = [page.Panel(f"Findings, {name}", body=findings_html(each)) for name, each in found.items()]
    for name, (space, records) in variants.items():
        about = "Each point is a design; hover for all of it."
        for mode in MODES:
            drawn = front_figure(space, records, mode, {})
            panels.append(page.Panel(f"{mode.capitalize()}, {name}", about, drawn, half=True))
        goals = [goal for mode in MODES for goal in objectives_of(space, mode)]
        panels.append(page.Panel(f"Which parameters matter, {name}", "", importance_figure(space, records, goals)))
    return Outcome(
        title,
        {
            "findings": {name: [asdict(finding) for finding in each] for name, each in found.items()},
            "points": {name: len(records) for name, (_, records) in variants.items()},
        },
        tuple(findings_table(f"{name} · {samples[name]}", each) for name, each in found.items()),
        tuple(samples.values()),
        tuple(panels),
    )
