"""Exact optimum under a peak of memory over time: interval formulation on CP-SAT.

After MOCCASIN (Bartan et al. 2023): each forward node has up to two retention intervals on a grid of events, where
stage j, the first run of node j, may be preceded by second runs of earlier nodes in order; a cumulative constraint
bounds the bytes of all intervals. Two classes of solutions are told apart:

* plans: a value that is dropped after the forward pass is read by backward from its second run only, which is what a
  ``CheckpointPlan`` says and the transform does. This class is solved first and gives the answer.
* schedules: every reader may be served by either run, and a node may also run again within the forward pass. This class
  contains the first; its bound says how much a finer decision than a plan could gain at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from monet.graph.graph import Graph
from monet.graph.op import Op
from monet.search.checkpoint.blocks import bound_for_plans, plan_by_blocks
from monet.search.checkpoint.liveness import Peak, peak_of
from monet.search.checkpoint.timeline import Timeline, timeline_of
from monet.transforms.checkpoint_plan import CheckpointPlan, Impossible
from monet.transforms.checkpoint_problem import CheckpointProblem, flops_cost
from monet.transforms.recompute import recompute

NODES = 200  # of a line that intervals decide; deeper networks are chained from blocks
WORK_PLANS = 20.0  # deterministic seconds of CP-SAT
WORK_SCHEDULES = 20.0
SMALL = 0.001  # of the plain peak: items below (statistics, scalars) are kept and not decided about


@dataclass(frozen=True, slots=True)
class PeakChoice:
    """The cheapest plan found whose peak stays under ``budget``. Costs are of one step; ``bound`` is for plans,
    ``schedule_bound`` for every schedule that runs a node at most twice."""

    plan: CheckpointPlan
    budget: int
    peak: Peak
    cost: int
    bound: float
    schedule_bound: float
    step_cost: int
    forward_cost: int
    nodes: int

    @property
    def by_blocks(self) -> bool:
        """Whether the network is too deep to be solved as a whole."""
        return self.nodes > NODES

    @property
    def share_of_step(self) -> float:
        """Repeated work over the work of the whole step, forward and backward."""
        return self.cost / self.step_cost

    @property
    def proved(self) -> bool:
        """Whether no plan is cheaper."""
        return self.bound >= self.cost - 0.5

    @property
    def proved_for_schedules(self) -> bool:
        """Whether no schedule that runs a node at most twice is cheaper."""
        return self.schedule_bound >= self.cost - 0.5

    @property
    def gap(self) -> float:
        """How much cheaper another plan could be at most, as a share of the forward pass."""
        return 0.0 if self.proved else (self.cost - self.bound) / self.forward_cost


class BudgetTooSmall(Impossible):
    """No plan keeps the peak under the budget."""


def best_under_peak(
    graph: Graph,
    budget: int,
    cost: Callable[[Graph, Op], int] = flops_cost,
    work: tuple[float, float] = (WORK_PLANS, WORK_SCHEDULES),
) -> PeakChoice:
    """The plan that repeats the least work while activations and their gradients never exceed ``budget`` bytes."""
    timeline, problem = timeline_of(graph, cost, fold=False)
    _check_floor(timeline, budget)
    if max(timeline.plain) <= budget:
        return _choice(graph, timeline, CheckpointPlan(), budget, 0, 0.0, 0.0)
    if len(timeline.nodes) > NODES:
        return _by_blocks(graph, timeline, problem, budget)
    answer = _Intervals(timeline, problem, budget, plans_only=True).solve(work[0])
    if answer.dropped is None:
        raise _no_plan(timeline, problem, budget, answer.infeasible, work[0])
    schedule_bound = 0.0
    if work[1] > 0:
        wider = _Intervals(timeline, problem, budget, plans_only=False).solve(work[1], at_most=answer.cost)
        schedule_bound = min(wider.bound, answer.bound)
    plan = _plan(timeline, problem, answer.dropped, answer.repeated)
    found = _choice(graph, timeline, plan, budget, answer.cost, answer.bound, schedule_bound)
    if found.peak.bytes > budget:
        raise RuntimeError(f"{graph.name}: the plan's peak is {found.peak.bytes:,} bytes, the model said {budget:,}")
    return found


def _by_blocks(graph: Graph, timeline: Timeline, problem: CheckpointProblem, budget: int) -> PeakChoice:
    """The same for deep networks: equal blocks solved once and chained, with a bound for every plan."""
    plan = plan_by_blocks(graph, problem, budget)
    if plan is None:
        raise BudgetTooSmall(
            f"no chain of blocks keeps the peak under {budget:,} bytes; the plain step has {max(timeline.plain):,} "
            f"({max(timeline.plain) - budget:,} too many), and the largest single operator, {_floor(timeline)}, needs "
            f"{max(timeline.floors):,} of its own",
            _floor(timeline),
            max(timeline.plain) - budget,
        )
    kept, narrowed = problem.surviving(plan)
    work, bound = problem.cost(kept, narrowed), bound_for_plans(timeline, problem, budget)
    return _choice(graph, timeline, plan, budget, work, min(bound, work), 0.0)


def _choice(
    graph: Graph, timeline: Timeline, plan: CheckpointPlan, budget: int, cost: int, bound: float, schedule_bound: float
) -> PeakChoice:
    peak = peak_of(recompute(graph, plan))
    return PeakChoice(
        plan, budget, peak, cost, bound, schedule_bound, timeline.step_cost, timeline.forward_cost, len(timeline.nodes)
    )


def _floor(timeline: Timeline) -> str:
    """The operator whose own operands and results are the most bytes."""
    floors = timeline.floors
    return timeline.nodes[floors.index(max(floors))].names[-1]


def _check_floor(timeline: Timeline, budget: int) -> None:
    """An operator whose own operands and results exceed the budget cannot be helped by recomputation."""
    worst, held = _floor(timeline), max(timeline.floors)
    if held > budget:
        raise BudgetTooSmall(
            f"a peak of {budget:,} bytes is impossible: {worst} alone holds {held:,} bytes of operands and results, "
            f"{held - budget:,} too many; only splitting that operator (a smaller batch, or chunks of it) lowers this "
            "floor",
            worst,
            held - budget,
        )


def _no_plan(
    timeline: Timeline, problem: CheckpointProblem, budget: int, infeasible: bool, work: float
) -> BudgetTooSmall:
    least = _Intervals(timeline, problem, None, plans_only=True).least_capacity(work)
    what = "no plan keeps" if infeasible else "no plan was found, nor excluded, that keeps"
    return BudgetTooSmall(
        f"{what} the peak under {budget:,} bytes; the plain step has {max(timeline.plain):,}, the least found with "
        f"recomputation is {least:,} ({least - budget:,} too many), and the largest single operator, "
        f"{_floor(timeline)}, needs {max(timeline.floors):,} of its own",
        _floor(timeline),
        least - budget,
    )


def _plan(timeline: Timeline, problem: CheckpointProblem, dropped: set[int], repeated: set[int]) -> CheckpointPlan:
    """What survives: every saved value that is not dropped, and whatever else the repeated nodes start from."""
    kept = {problem.value_of_storage[name] for name in problem.saved}
    kept -= {timeline.items[i].value for i in dropped}
    for number in repeated:
        for i in timeline.reads[number]:
            value = timeline.items[i].value
            if i not in dropped and problem.values[value].keepable:
                kept.add(value)
    return problem.plan(frozenset(kept))


# --- the model -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Answer:
    dropped: set[int] | None  # items
    repeated: set[int]  # nodes
    cost: int
    bound: float
    infeasible: bool


class _Intervals:
    """The CP-SAT model of one class under one budget."""

    def __init__(self, timeline: Timeline, problem: CheckpointProblem, budget: int | None, plans_only: bool) -> None:
        from ortools.sat.python import cp_model

        self.timeline, self.problem, self.plans_only = timeline, problem, plans_only
        self.unit = timeline.unit
        self.model = cp_model.CpModel()
        most = -(-max(timeline.plain) // self.unit)
        self.capacity: Any = self.model.new_int_var(0, most, "") if budget is None else budget // self.unit
        self.end = self.slot(len(timeline.nodes) - 1, len(timeline.nodes) - 1)
        self.made: list[list[int]] = [[] for _ in timeline.nodes]
        for number, item in enumerate(timeline.items):
            self.made[item.maker].append(number)
        self.stages = self._stages()
        self.again: list[Any] = []  # node → literal: it runs twice
        self.start: list[Any] = []  # node → when its second run starts
        self.intervals: list[Any] = []
        self.demands: list[int] = []
        self.drops: dict[int, Any] = {}  # item → literal: backward reads the second run
        self.first_serves: dict[tuple[int, int], Any] = {}  # (item, reader) → literal: the first run's buffer is read
        self._second_runs()
        self._fixed()
        for number, item in enumerate(timeline.items):
            if item.bytes > SMALL * max(timeline.plain):
                self._item(number)
            else:
                self._small(number)
        if plans_only:
            self._just_in_time()
        self.model.add_cumulative(self.intervals, self.demands, self.capacity)
        self._knapsacks()
        costs = [timeline.nodes[number].cost for number in range(timeline.forward)]
        self.cost = cp_model.LinearExpr.weighted_sum(self.again, costs)
        self.model.minimize(self.cost)

    @staticmethod
    def slot(stage: int, node: int) -> int:
        """The event of ``node`` running in ``stage``; ``stage == node`` is its first run."""
        return stage * (stage + 1) // 2 + node

    def _stages(self) -> list[set[int]]:
        """Node → stages in which a second run can be of use: a reader's, or one in which a reader may run again.

        To run earlier holds the same buffer for longer. It could only help a node that needs workspace, by running
        where less is held; such schedules are outside both classes.
        """
        forward = self.timeline.forward
        found: list[set[int]] = [set() for _ in range(forward)]
        for node in reversed(range(forward)):
            for number in self.made[node]:
                for reader in self.timeline.items[number].readers:
                    if reader < forward:
                        found[node] |= found[reader]
                    if reader >= forward or not self.plans_only:
                        found[node].add(reader)
        return found

    def _second_runs(self) -> None:
        from ortools.sat.python import cp_model

        for node in range(self.timeline.forward):
            slots = sorted(self.slot(stage, node) for stage in self.stages[node])
            again = self.model.new_bool_var(f"again{node}")
            if not slots or not self.timeline.nodes[node].repeatable:
                self.model.add(again == 0)
            domain = cp_model.Domain.from_values(slots or [0])
            self.again.append(again)
            self.start.append(self.model.new_int_var_from_domain(domain, f"start{node}"))

    def _hold(self, size: int, first: int, last: int) -> None:
        if size:
            self.intervals.append(self.model.new_fixed_size_interval_var(first, last - first + 1, ""))
            self.demands.append(size // self.unit)

    def _fixed(self) -> None:
        """Backward's own buffers, and what nodes need beside their items while they run."""
        for size, first, last in self.timeline.fixed:
            self._hold(size, self.slot(first, first), self.slot(last, last))
        for node in range(self.timeline.forward):
            size = self.timeline.nodes[node].workspace
            self._hold(size, self.slot(node, node), self.slot(node, node))
            if size:
                interval = self.model.new_optional_fixed_size_interval_var(self.start[node], 1, self.again[node], "")
                self.intervals.append(interval)
                self.demands.append(size // self.unit)

    def _small(self, number: int) -> None:
        """Kept until nothing can read it any more."""
        item = self.timeline.items[number]
        last = max(item.readers)
        for reader in item.readers:
            if reader < self.timeline.forward:
                last = max(last, *self.stages[reader], reader)
        self._hold(item.bytes, self.slot(item.maker, item.maker), self.slot(last, last))

    def _item(self, number: int) -> None:
        """Both intervals of an item, and for each of its readers the one that serves it."""
        model, item = self.model, self.timeline.items[number]
        born, again = self.slot(item.maker, item.maker), self.again[item.maker]
        first_end, second_end = model.new_int_var(born, self.end, ""), model.new_int_var(0, self.end, "")
        length = model.new_int_var(1, self.end + 1, "")
        self.intervals += [
            model.new_interval_var(born, model.new_int_var(1, self.end + 1, ""), first_end + 1, ""),
            model.new_optional_interval_var(self.start[item.maker], length, second_end + 1, again, ""),
        ]
        self.demands += [item.bytes // self.unit] * 2
        drop = self.drops[number] = model.new_bool_var(f"drop{number}")
        if not self.problem.values[item.value].keepable:
            model.add(drop == 1)
        for reader in item.readers:
            forward = reader < self.timeline.forward
            at = self.slot(reader, reader)
            if forward and self.plans_only:
                model.add(first_end >= at)
            else:
                second = drop if self.plans_only else model.new_bool_var("")
                self.first_serves[number, reader] = second.negated()
                self._serve(number, at, second, [], first_end, second_end)
            if forward:
                second = drop if self.plans_only else model.new_bool_var("")
                self._serve(number, self.start[reader], second, [self.again[reader]], first_end, second_end)

    def _serve(self, number: int, at: Any, second: Any, when: list[Any], first_end: Any, second_end: Any) -> None:
        """A reader at ``at`` (if ``when``) is served by the second interval if ``second``, else by the first."""
        maker = self.timeline.items[number].maker
        self.model.add(first_end >= at).only_enforce_if([second.negated(), *when])
        self.model.add(self.start[maker] < at).only_enforce_if([second, *when])
        self.model.add(second_end >= at).only_enforce_if([second, *when])
        self.model.add_bool_or([second.negated(), self.again[maker], *(condition.negated() for condition in when)])

    def _just_in_time(self) -> None:
        """As the transform has it, a second run happens in the stage of its first reader."""
        model, forward = self.model, self.timeline.forward
        at: list[dict[int, Any]] = [{} for _ in range(forward)]  # node → stage → literal: it runs again there
        for node in reversed(range(forward)):
            for stage in sorted(self.stages[node]):
                here = at[node][stage] = model.new_bool_var("")
                model.add(self.start[node] == self.slot(stage, node)).only_enforce_if(here)
                used = []
                for number in self.made[node]:
                    if number not in self.drops:
                        continue
                    drop = self.drops[number]
                    used += [drop] if stage in self.timeline.items[number].readers else []
                    for reader in self.timeline.items[number].readers:
                        if reader < forward and stage in at[reader]:
                            both = model.new_bool_var("")
                            model.add_implication(both, drop)
                            model.add_implication(both, at[reader][stage])
                            used.append(both)
                model.add_bool_or([here.negated(), *used])
            model.add_exactly_one([self.again[node].negated(), *at[node].values()])

    def _knapsacks(self) -> None:
        """Redundant, for the linear relaxation: what first runs hold during each backward node, in one sum."""
        timeline, base = self.timeline, self.timeline.base
        for node in range(timeline.forward, len(timeline.nodes)):
            terms, held = [], base[node]
            for number, item in enumerate(timeline.items):
                if number not in self.drops:
                    continue
                if node in item.readers:
                    held += item.bytes
                    continue
                later = [reader for reader in item.readers if reader > node]
                if later:
                    literal = self.first_serves.get((number, min(later)))
                    if literal is not None:
                        terms.append((item.bytes // self.unit) * literal)
            if terms:
                self.model.add(sum(terms) <= self.capacity - held // self.unit)

    @staticmethod
    def _solver(work: float) -> Any:
        """CP-SAT for so many deterministic seconds, the same everywhere."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.max_deterministic_time = work
        solver.parameters.random_seed = 1
        solver.parameters.num_workers = 1
        return solver

    def least_capacity(self, work: float) -> int:
        """The least peak found, in bytes."""
        from ortools.sat.python import cp_model

        self.model.minimize(self.capacity)
        solver = self._solver(work)
        if solver.solve(self.model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return max(self.timeline.plain)
        return int(solver.value(self.capacity)) * self.unit

    def solve(self, work: float, at_most: int | None = None) -> _Answer:
        """Run CP-SAT for so many deterministic seconds."""
        from ortools.sat.python import cp_model

        if at_most is not None:
            self.model.add(self.cost <= at_most)
        solver = self._solver(work)
        if not self.plans_only:  # relaxations bound little here: ResNet-18 at 45 % is proved in 10 s instead of 38
            solver.parameters.linearization_level = 0
        status = solver.solve(self.model)
        bound = max(0.0, solver.best_objective_bound)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return _Answer(None, set(), 0, bound, status == cp_model.INFEASIBLE)
        repeated = {node for node, literal in enumerate(self.again) if solver.boolean_value(literal)}
        dropped = {
            number
            for number, literal in self.drops.items()
            if solver.boolean_value(literal) and self.timeline.items[number].maker in repeated
        }
        cost = sum(self.timeline.nodes[node].cost for node in repeated)
        return _Answer(dropped, repeated, cost, bound, False)
