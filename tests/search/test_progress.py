"""What a search says while it runs: stage, plans, rate, share, time left, best so far."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from monet import load_hardware, load_model, training_step
from monet.commands import progress
from monet.schedule.engine import Scheduler
from monet.search.allocation.bases import allocate_fused
from monet.search.fusion.search import FusionSettings, find_fusion
from monet.search.progress import SearchProgress, part_of


def rises(seen: list[SearchProgress]) -> bool:
    """Plans and shares never fall, the best never gets worse; all shares are of the whole."""
    tried, shares = [now.tried for now in seen], [now.share for now in seen]
    bests = [now.best.latency_s for now in seen if now.best]
    return tried == sorted(tried) and shares == sorted(shares) and 0 <= shares[0] <= shares[-1] <= 1 and bool(bests)


def test_searches_say_how_far_they_are() -> None:
    scheduler, seen = Scheduler(training_step(load_model("mlp-pusher")), load_hardware("micro-npu")), []
    found = find_fusion(scheduler, FusionSettings(effort=1), watch=seen.append)
    assert rises(seen)
    assert seen[-1].tried == found.schedules == len(scheduler_plans(seen))
    assert seen[-1].best is not None
    assert seen[-1].best.latency_s == found.within[1].latency_s
    assert len({now.stage for now in seen}) > 3
    seen.clear()
    placed = allocate_fused(scheduler, "auto", effort=1, watch=seen.append)
    assert rises(seen)
    assert seen[-1].tried >= placed.tried


def scheduler_plans(seen: list[SearchProgress]) -> set[int]:
    """Numbers of plans that were reported, those before the first report counted as reported by it."""
    return {*range(1, seen[0].tried + 1), *(now.tried for now in seen)}


def test_a_part_of_a_search_is_a_part_of_its_progress() -> None:
    seen: list[SearchProgress] = []
    watch = part_of(seen.append, 0.25, 0.75, 100)
    assert watch is not None
    watch(SearchProgress("middle", 7, 0.5))
    assert seen == [SearchProgress("middle", 107, 0.5)]
    assert part_of(None, 0, 1) is None


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=160, markup=False)
    monkeypatch.setattr(progress, "screen", lambda errors: console)
    with progress.searching("starting") as watch:
        watch(SearchProgress("improving pe[0,1]", 1234, 0.5))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for words in ("improving pe[0,1]", "50 %", "1,234 plans", "/s", "best –", "left"):
        assert words in text
