"""The page of checkpointing: names of baselines can be read."""

from __future__ import annotations

from monet.report.html.checkpoint import _marks


def test_names_of_points_stay_inside_and_neighbours_part() -> None:
    places = (0, 1_100_000, 3_900_000, 40_000_000, 78_000_000)
    points = [{"kept": one, "method": "", "plan": {}} for one in places]
    left, beside, third, middle, right = _marks(points, "kept", lambda one: 0.0, "baselines")["textposition"]
    assert all(one.endswith("right") for one in (left, beside, third))
    assert len({left, beside, third}) == 3
    assert middle.endswith("center")
    assert right.endswith("left")
