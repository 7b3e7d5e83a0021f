"""Where a pipeline is cut: so that the chunk that takes longest takes least, by what each layer takes on its device.

Layers that are alike on devices that are alike are cut into equally many, unless the plan says ``cut_by="time"``: the
embedding and the head are not among them, and may be worth a layer or more.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from monet.distributed.costs.chunk_costs import Coster
from monet.distributed.costs.programs import FEW
from monet.distributed.layout import Laid, lay
from monet.distributed.plan import ParallelPlan
from monet.distributed.systems.system import Devices, System
from monet.distributed.transform.blocks import balanced_over
from monet.errors import OptionError


def laid_and_cut(coster: Coster, plan: ParallelPlan, system: System, batch: int) -> Laid:
    """A plan laid on a system, with its cuts where layers or devices are not alike or time decides."""
    laid = lay(plan, system, batch)
    if plan.cuts or plan.chunks == 1:
        return laid
    unlike = len(coster.blocks()) > 1
    if plan.cut_by == "time" or (not plan.cut_by and (unlike or len({device.key for device in laid.devices}) > 1)):
        cuts = cuts_by_time(coster, laid)
    else:
        cuts = tuple(accumulate(coster.sizes(plan)[:-1])) if unlike else ()
    return replace(laid, plan=replace(plan, cuts=cuts, cut_by=""))


def cuts_by_time(coster: Coster, laid: Laid) -> tuple[int, ...]:
    """The layers that chunks begin with, without the first."""
    plan, many = laid.plan, sum(coster.blocks())
    if plan.chunks > many:
        said = "pipeline" if plan.interleave == 1 else "interleave"
        reason = f"{plan.chunks} chunks are {plan.chunks - many} more than the {many} layers there are; at most {many}"
        raise OptionError(said, getattr(plan, said), reason)
    kinds = {device.key: device for device in laid.devices}
    seconds = {key: layer_seconds(coster, laid, device) for key, device in kinds.items()}
    by_chunk = [seconds[laid.devices[chunk % plan.pipeline].key] for chunk in range(plan.chunks)]
    return tuple(balanced_over(by_chunk)[1:])


def layer_seconds(coster: Coster, laid: Laid, device: Devices) -> list[float]:
    """By layer: both passes of a micro-batch as a stage of its own, what comes before the first and after the last
    included; of a long row of equal ones, what one between others adds."""
    many, long = sum(coster.blocks()), coster.is_long(laid.plan)
    ends = FEW + 1
    cuts = (ends, many - ends) if long else tuple(range(1, many))
    usual = replace(laid.plan, pipeline=len(cuts) + 1, interleave=1, pipeline_schedule="1f1b", cuts=cuts, cut_by="")
    chunks = coster.chunks(usual, laid.network, (device,) * usual.pipeline, laid.micro_batches, updates=False)
    took = [chunk.forward["seconds"] + chunk.backward["seconds"] for chunk in chunks]
    if not long:
        return took
    first, between, last = took
    each = between / (many - 2 * ends)
    middle = [each] * (many - 2)
    return [max(each, first - (ends - 1) * each), *middle, max(each, last - (ends - 1) * each)]
