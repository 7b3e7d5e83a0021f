"""Names beside points of a plot: none covers another, none leaves the plot, and a name without room is left out."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as some

from monet.report.html.labels import _scale, label_box, with_labels_apart
from monet.report.html.study import axis, figure, scatter

WIDTH, HEIGHT = 420.0, 250.0
names = some.text("abcdef-", min_size=1, max_size=18)
values = some.lists(some.tuples(some.floats(0.1, 9), some.floats(0.1, 9), names), min_size=1, max_size=12)


@settings(max_examples=80, deadline=None)
@given(values, some.booleans())
def test_no_name_covers_another(points: list[tuple[float, float, str]], logarithmic: bool) -> None:
    x, y, labels = (list(column) for column in zip(*points, strict=True))
    kind = {"type": "log"} if logarithmic else {}
    drawn = figure([scatter("some", x, y, "markers+text", text=labels)], xaxis=axis("", **kind), yaxis=axis("", **kind))
    trace = with_labels_apart(drawn, WIDTH, HEIGHT)["data"][0]
    place = _scale(drawn["data"], drawn["layout"], WIDTH, HEIGHT)
    boxes = [
        label_box(name, side, *place(*point))
        for name, side, *point in zip(trace["text"], trace["textposition"], x, y, strict=True)
        if name
    ]
    assert boxes
    assert all(box.left >= 0 and box.right <= WIDTH for box in boxes)
    assert not any(one.overlap(other) for one, other in combinations(boxes, 2))


def test_neighbours_part_and_a_name_without_room_is_left_to_the_hover_text() -> None:
    names = ["keep-all", "per-block", "sqrt-segments"]
    close = figure([scatter("baselines", [1, 1, 9], [1, 1, 9], "markers+text", text=names)], xaxis={}, yaxis={})
    trace = with_labels_apart(close, WIDTH, HEIGHT)["data"][0]
    assert trace["text"] == names
    assert trace["textposition"][0] != trace["textposition"][1]
    crowd = figure([scatter("many", [1] * 20, [1] * 20, "markers+text", text=["a-long-name"] * 20)], xaxis={}, yaxis={})
    shown = [name for name in with_labels_apart(crowd, WIDTH, HEIGHT)["data"][0]["text"] if name]
    assert 2 <= len(shown) <= 8
