"""Which limit excludes every design of a template, and what the smallest one needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from monet.errors import MonetError
from monet.search.hardware.space import Space
from monet.search.mining.parts import Split
from monet.search.mining.templates import Limits


def excluded(space: Space, limits: Limits) -> list[str]:
    """A line for each limit that no design is within by its parts; none if some design is within all of them."""
    most_area = math.inf if limits.area_mm2 is None else limits.area_mm2 * 1e-6
    most_power = math.inf if limits.tdp_w is None else limits.tdp_w
    area = power = area_within = power_within = math.inf
    for group in Split(space).groups():
        areas, powers = group.area_m2, group.watts
        in_area, in_power = areas <= most_area * (1 + 1e-12), powers <= most_power * (1 + 1e-12)
        if (in_area & in_power).any():
            return []
        area, power = min(area, float(areas.min())), min(power, float(powers.min()))
        area_within = min(area_within, float(np.min(areas, where=in_power, initial=np.inf)))
        power_within = min(power_within, float(np.min(powers, where=in_area, initial=np.inf)))
    said, given = [], "at full use, the limit is"
    if area > most_area:
        said.append(
            f"area: the smallest design takes {area * 1e6:.4g} mm², the limit is {limits.area_mm2:g} mm² (--area)"
        )
    if power > most_power:
        said.append(f"power: the one that draws least takes {power:.4g} W {given} {limits.tdp_w:g} W (--power)")
    return said or [
        f"area and power together: within {limits.area_mm2:g} mm² (--area) the design that draws least takes "
        f"{power_within:.4g} W at full use, within {limits.tdp_w:g} W (--power) the smallest takes "
        f"{area_within * 1e6:.4g} mm²"
    ]


def check_feasible(name: str, space: Space, limits: Limits) -> None:
    """An error that says which limit excludes every design of a template, if one does."""
    said = excluded(space, limits)
    if said:
        raise MonetError(nothing_feasible(name, said))


def nothing_feasible(name: str, said: Sequence[str]) -> str:
    """The error's text."""
    return f"template {name}: no design is feasible\n" + "\n".join(f"  {line}" for line in said)
