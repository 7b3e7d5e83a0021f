"""Peak over time for deep networks: each kind of block is solved once, blocks are chained by dynamic programming.

After Rockmate (Zhao et al. 2023): what crosses from block to block is kept, inside a block the exact static optimum is
taken at a range of budgets, and for each of these ways the block's own peak in backward is measured through the
transform. The chain then picks one way per block: while a block runs backwards, what earlier blocks keep plus its own
peak stays under the budget. Equal blocks share their ways. The result is optimal among the combinations of these ways;
the bound is that of static optima in what the budget leaves at the fullest moments, and holds for every plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from monet.graph.graph import Graph
from monet.graph.op import Phase
from monet.search.checkpoint.liveness import memory_over_time, peak_of
from monet.search.checkpoint.static import best_under
from monet.search.checkpoint.timeline import Timeline
from monet.transforms.checkpoint_baselines import block_of
from monet.transforms.checkpoint_plan import CheckpointPlan
from monet.transforms.checkpoint_problem import CheckpointProblem, Value
from monet.transforms.recompute import recompute

SHARES = tuple(share / 12 for share in range(13))
TRIES = 6
MOMENTS = 3  # fullest backward nodes that bounds are taken at


@dataclass(frozen=True, slots=True)
class BlockChoice:
    """One way to treat a block: values kept (by position in the block), bytes, repeated work, own peak in backward."""

    kept: tuple[int, ...]
    bytes: int
    cost: int
    peak: int


@dataclass(frozen=True)
class Block:
    """A run of operators of one repeated unit, or of what lies between such units, of layers ``names``.

    ``values`` are its own; ``passed`` of them are read by other blocks.
    """

    names: frozenset[str]
    operators: tuple[int, ...]
    values: tuple[int, ...]
    passed: frozenset[int]

    def problem(self, whole: CheckpointProblem) -> CheckpointProblem:
        """The block alone; what is passed on is there whatever happens."""
        local = {value: i for i, value in enumerate(v for v in self.values if v not in self.passed)}
        number = {operator: i for i, operator in enumerate(self.operators)}
        values: list[Value] = [replace(whole.values[v], maker=number[whole.values[v].maker]) for v in local]
        operators = [
            replace(
                whole.operators[o],
                reads=tuple(local[v] for v in whole.operators[o].reads if v in local),
                writes=tuple(local[v] for v in whole.operators[o].writes if v in local),
            )
            for o in self.operators
        ]
        saved = [v for v in local if whole.values[v].needed and whole.values[v].keepable]
        return CheckpointProblem(
            tuple(values),
            tuple(operators),
            max(1, sum(operator.cost for operator in operators)),
            sum(whole.values[v].bytes for v in saved),
            frozenset(whole.values[v].storage for v in saved),
            {},
        )

    def signature(self, whole: CheckpointProblem) -> tuple[object, ...]:
        """Equal for blocks that are alike."""
        first = self.values[0] if self.values else 0
        local = self.problem(whole)
        names = tuple((operator.cost, operator.reads, operator.writes) for operator in local.operators)
        sizes = tuple((value.bytes, value.needed, value.narrowed_bytes) for value in local.values)
        return names, sizes, tuple(sorted(v - first for v in self.passed))


def blocks_of(graph: Graph, problem: CheckpointProblem) -> list[Block]:
    """The forward pass cut where the repeated unit changes."""
    by_name = {op.name: op for op in graph.ops}
    layers = [block_of(by_name[operator.name]) for operator in problem.operators]
    names = [layer if layer.rpartition(".")[2].isdigit() else "" for layer in layers]
    runs: list[list[int]] = []
    for number, name in enumerate(names):
        if runs and names[runs[-1][-1]] == name:
            runs[-1].append(number)
        else:
            runs.append([number])
    home = {number: i for i, run in enumerate(runs) for number in run}
    crossing: dict[int, set[int]] = {}
    for number, operator in enumerate(problem.operators):
        for value in operator.reads:
            if home[problem.values[value].maker] != home[number]:
                crossing.setdefault(home[problem.values[value].maker], set()).add(value)
    found = []
    for i, run in enumerate(runs):
        values = tuple(v for v, value in enumerate(problem.values) if home[value.maker] == i)
        passed = frozenset(v for v in crossing.get(i, ()) if problem.values[v].keepable)
        found.append(Block(frozenset(layers[number] for number in run), tuple(run), values, passed))
    return found


def plan_by_blocks(graph: Graph, problem: CheckpointProblem, budget: int) -> CheckpointPlan | None:
    """A plan whose peak, measured through the transform, stays under ``budget``; None if the chain has none."""
    blocks = blocks_of(graph, problem)
    choices = _block_choices(graph, problem, blocks)
    target = budget
    for _ in range(TRIES):
        kept = _chain(problem, blocks, choices, target)
        if kept is None:
            return None
        plan = problem.plan(kept)
        peak = peak_of(recompute(graph, plan))
        if peak.bytes <= budget:
            return plan
        target -= peak.bytes - budget  # the forward pass, or what crosses blocks, needs more than the chain assumed
    return None


def _block_choices(graph: Graph, problem: CheckpointProblem, blocks: list[Block]) -> list[list[BlockChoice]]:
    """For every block the ways to treat it; equal blocks are solved and measured once."""
    known: dict[tuple[object, ...], list[BlockChoice]] = {}
    found = []
    before = 0
    for block in blocks:
        key = block.signature(problem)
        if key not in known:
            known[key] = _measured(graph, problem, block, before)
        found.append(known[key])
        before += sum(problem.values[v].bytes for v in block.values if _is_saved(problem, v))
    return found


def _is_saved(problem: CheckpointProblem, value: int) -> bool:
    described = problem.values[value]
    return described.keepable and described.storage in problem.saved


def _measured(graph: Graph, problem: CheckpointProblem, block: Block, before: int) -> list[BlockChoice]:
    local = block.problem(problem)
    own = [v for v in block.values if v not in block.passed]
    others = {v for v in range(len(problem.values)) if _is_saved(problem, v) and v not in own}
    always = sum(problem.values[v].bytes for v in block.passed if _is_saved(problem, v))
    found: dict[frozenset[int], BlockChoice] = {}
    for share in SHARES:
        choice = best_under(local, int(local.keep_all_bytes * share))
        if choice.kept in found:
            continue
        kept = frozenset(own[i] for i in choice.kept) | others | block.passed
        peak = _own_peak(recompute(graph, problem.plan(kept)), block.names) - before
        places = tuple(block.values.index(own[i]) for i in sorted(choice.kept))
        found[choice.kept] = BlockChoice(places, choice.kept_bytes + always, choice.cost, max(0, peak))
    return list(found.values())


def _own_peak(graph: Graph, names: frozenset[str]) -> int:
    """The most that is held while the block's backward operators and clones run."""
    own = (op.phase is Phase.BACKWARD and op.micro_batch == 0 and block_of(op) in names for op in graph.ops)
    return max((size for size, inside in zip(memory_over_time(graph), own, strict=True) if inside), default=0)


def _chain(
    problem: CheckpointProblem, blocks: list[Block], choices: list[list[BlockChoice]], budget: int
) -> frozenset[int] | None:
    """One way per block, least work in all: states are (bytes kept so far, work), dominated ones dropped."""
    states: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())]
    for options in choices:
        nexts: dict[int, tuple[int, tuple[int, ...]]] = {}
        for size, cost, picks in states:
            for index, choice in enumerate(options):
                if size + choice.peak > budget:
                    continue
                now = size + choice.bytes
                if now not in nexts or cost + choice.cost < nexts[now][0]:
                    nexts[now] = (cost + choice.cost, (*picks, index))
        states = []
        for size in sorted(nexts):
            cost, picks = nexts[size]
            if not states or cost < states[-1][1]:
                states.append((size, cost, picks))
    if not states:
        return None
    picks = states[-1][2]
    kept: set[int] = set()
    for block, options, index in zip(blocks, choices, picks, strict=True):
        kept |= block.passed | {block.values[place] for place in options[index].kept}
    return frozenset(kept)


def bound_for_plans(timeline: Timeline, problem: CheckpointProblem, budget: int) -> float:
    """Work that every plan repeats at least under a peak of ``budget``: the best of the fullest moments' static bounds.

    While a backward node runs, its operands and results are there, and so is everything kept for later nodes.
    """
    floors = timeline.floors
    nodes = sorted(range(timeline.forward, len(timeline.nodes)), key=lambda node: -floors[node])
    found = 0.0
    for node in dict.fromkeys((timeline.forward, *nodes[:MOMENTS])):
        later = {item.value for item in timeline.items if max(item.readers) > node and node not in item.readers}
        values = tuple(
            value if i in later or not value.keepable else replace(value, bytes=0, narrowed_bytes=0)
            for i, value in enumerate(problem.values)
        )
        found = max(found, best_under(replace(problem, values=values), budget - floors[node]).bound)
    return found
