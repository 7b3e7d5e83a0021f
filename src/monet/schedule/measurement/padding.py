"""Multiply-accumulates that only fill groups: elements that share a scale are multiplied in whole groups of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monet.formats import format_named
from monet.mapping.nest.output_tiles import multiplied
from monet.schedule.costs.attention_cost import whole_products
from monet.schedule.expansion.geometry import step_nest

if TYPE_CHECKING:
    from monet.schedule.costs.cost_table import OperatorSteps


def padding_macs(stepped: OperatorSteps) -> int:
    """What the arrays of an operator's cores multiply in all of its steps, less what it asks for."""
    operator = stepped.operator
    if not any(format_named(name).element for pair, _ in operator.products for name in pair):
        return 0
    core, done = stepped.instances[0].core, 0
    _, first, count = np.unique(stepped.classes, return_index=True, return_counts=True)
    for step, many in zip(first.tolist(), count.tolist(), strict=True):
        nest = step_nest(operator.nest, stepped.steps, step)
        formats = tuple(pair for pair, _ in operator.products)
        groups, nests = (1, (nest,)) if operator.is_matrix else whole_products(nest, core, formats)
        done += many * groups * sum(multiplied(each, core.output_tiles) for each in nests)
    return done - operator.macs
