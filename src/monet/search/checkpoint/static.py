"""Exact static optimum: which values to keep under a budget of bytes so that the least work is repeated.

Binaries s (value kept) and r (operator repeated), as in the mixed-integer programmes of Checkmate without its stages:
what backward reads is kept or its maker is repeated; a repeated operator finds its inputs kept or repeated; kept bytes
stay under the budget. HiGHS (tight relaxations) and CP-SAT (symmetric knapsacks) are raced on deterministic work, not
on wall time: each gets a turn, longer every round, and the first proof ends the race. So the same question has the
same answer, plan included, on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from monet.transforms.checkpoint_plan import CheckpointError, CheckpointPlan
from monet.transforms.checkpoint_problem import CheckpointProblem

# Turns of the race: solver, effort (nodes of HiGHS, deterministic seconds of CP-SAT), and what the forward pass counts
# in the objective of HiGHS, whose search takes other paths at another scale. What is easy is proved in the first turn.
TURNS: tuple[tuple[str, float, float], ...] = (
    ("HiGHS", 64, 1e4), ("HiGHS", 256, 1), ("HiGHS", 256, 100), ("CP-SAT", 0.1, 0), ("HiGHS", 4096, 1e4),
    ("CP-SAT", 1, 0), ("HiGHS", 32768, 1), ("CP-SAT", 8, 0), ("HiGHS", 262144, 1e4), ("CP-SAT", 64, 0),
)  # fmt: skip
# A bound this close to the plan (as a share of the forward pass) counts as proof. Knapsacks of hundreds of batch-norm
# statistics, a few bytes each, have countless plans within a millionth of each other; telling them apart is worthless.
PROOF = 1e-5


@dataclass(frozen=True, slots=True)
class Choice:
    """A selection of what to keep. ``bound`` is a proven lower bound on the repeated work under ``budget``.

    ``found_by`` names the solver; ``kept`` and ``narrowed`` index the problem's ``values``. Work and bytes are exact.
    """

    kept: frozenset[int]
    narrowed: frozenset[int]
    plan: CheckpointPlan
    budget: int
    kept_bytes: int
    cost: int
    bound: float
    forward_cost: int
    found_by: str

    @property
    def proved(self) -> bool:
        """Whether nothing cheaper fits the budget, to ``PROOF`` of the forward pass."""
        return self.gap <= PROOF

    @property
    def share(self) -> float:
        """Repeated work over the work of the forward pass."""
        return self.cost / self.forward_cost

    @property
    def gap(self) -> float:
        """How much cheaper an unknown plan could be at most, as a share of the forward pass."""
        return max(0.0, self.cost - math.ceil(self.bound - 0.5)) / self.forward_cost


def best_under(problem: CheckpointProblem, budget: int, narrow: bool = False) -> Choice:
    """The values to keep in at most ``budget`` bytes that repeat the least work, proved or with its gap.

    With ``narrow``, a value may also survive as the few bits that backward reads of it.
    """
    model, budget = _Model.of(problem, narrow), max(0, budget)
    best = model.choice((), budget, 0.0, "recompute all")
    if best is None:
        raise CheckpointError(_impossible(problem))
    for solver, effort, scale in TURNS:
        if best.proved:
            break
        if solver == "HiGHS":
            ones, bound = model.highs(budget, int(effort), scale)
            if model.choice(ones, budget, bound, solver) is None:
                ones, bound = model.highs(budget, int(effort), scale, shares=False)
        else:
            ones, bound = model.cp_sat(best, effort)
        found = model.choice(ones, budget, bound, solver)
        if found is not None and found.cost < best.cost:
            best = replace(found, bound=best.bound)
        # floating point: a bound of HiGHS may exceed the plan that meets it by some 1e-8 of the forward pass
        best = replace(best, bound=min(max(best.bound, bound), float(best.cost)))
    return best


def _impossible(problem: CheckpointProblem) -> str:
    fixed = [operator.name for operator in problem.operators if not operator.repeatable]
    return f"not everything can be recomputed: {', '.join(fixed[:5])} would overwrite what the step still needs"


@dataclass(frozen=True)
class _Model:
    """The constraints, row by row. Columns: values kept, then operators repeated, then values narrowed."""

    problem: CheckpointProblem
    narrowable: tuple[int, ...]
    constraints: tuple[tuple[tuple[int, ...], int], ...]  # (columns that may help, operator that asks or -1)

    @classmethod
    def of(cls, problem: CheckpointProblem, narrow: bool) -> _Model:
        first = len(problem.values)
        last = first + len(problem.operators)
        narrowable = [i for i, value in enumerate(problem.values) if narrow and value.needed and value.narrowable]
        column = {value: last + i for i, value in enumerate(narrowable)}
        constraints: list[tuple[tuple[int, ...], int]] = []
        for i, value in enumerate(problem.values):
            if value.needed:
                constraints.append(((i, first + value.maker, *((column[i],) if i in column else ())), -1))
        for index, operator in enumerate(problem.operators):
            constraints += [((i, first + problem.values[i].maker), first + index) for i in operator.reads]
        return cls(problem, tuple(narrowable), tuple(constraints))

    @property
    def allowed(self) -> list[bool]:
        """Column → whether it may be 1."""
        kept = [value.keepable for value in self.problem.values]
        return kept + [operator.repeatable for operator in self.problem.operators] + [True] * len(self.narrowable)

    @property
    def costs(self) -> list[int]:
        """Column → repeated work."""
        costs = [operator.cost for operator in self.problem.operators]
        return [0] * len(self.problem.values) + costs + [0] * len(self.narrowable)

    @property
    def sizes(self) -> list[int]:
        """Column → bytes that survive."""
        kept = [max(0, value.bytes) for value in self.problem.values]
        narrow = [self.problem.values[i].narrowed_bytes for i in self.narrowable]
        return kept + [0] * len(self.problem.operators) + narrow

    def choice(self, ones: Collection[int], budget: int, bound: float, solver: str) -> Choice | None:
        """Exact figures of a solver's answer; None if rounding broke the budget or an operator cannot be repeated."""
        problem, first = self.problem, len(self.problem.values)
        last = first + len(problem.operators)
        narrowed = frozenset(value for i, value in enumerate(self.narrowable) if last + i in ones)
        kept = problem.useful(frozenset(i for i in ones if i < first), narrowed)
        size = problem.bytes(kept, narrowed)
        if size > budget or not all(problem.operators[i].repeatable for i in problem.repeated(kept, narrowed)):
            return None
        cost, plan = problem.cost(kept, narrowed), problem.plan(kept, narrowed)
        return Choice(kept, narrowed, plan, budget, size, cost, bound, problem.forward_cost, solver)

    def highs(self, budget: int, nodes: int, scale: float, shares: bool = True) -> tuple[set[int], float]:
        """scipy's HiGHS for at most so many nodes: columns that are 1, and the bound it proved."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        unit = scale / max(1, self.problem.forward_cost)
        data, columns, starts, lower = [], [], [0], []
        for helpers, asking in self.constraints:
            data += [1.0] * len(helpers) + ([-1.0] if asking >= 0 else [])
            columns += [*helpers, *([asking] if asking >= 0 else [])]
            starts.append(len(columns))
            lower.append(1.0 if asking < 0 else 0.0)
        cost = np.array(self.costs) * unit
        # as shares the rows are well scaled; as whole numbers a rounded selection keeps the budget to the byte
        unit_bytes = max(1, budget) if shares else max(1, math.gcd(*self.sizes))
        sizes = np.array(self.sizes) / unit_bytes
        constraints = [
            LinearConstraint(
                csr_array((data, columns, starts), shape=(len(lower), len(cost))), np.array(lower), np.inf
            ),
            LinearConstraint(csr_array(sizes[None, :]), -np.inf, budget / unit_bytes),
        ]
        result = milp(
            cost,
            constraints=constraints,
            bounds=Bounds(0, np.array(self.allowed, float)),
            integrality=np.ones(len(cost)),
            options={"mip_rel_gap": PROOF, "node_limit": nodes},
        )
        bound = result.mip_dual_bound if result.mip_dual_bound is not None else 0.0
        ones = set() if result.x is None else {int(i) for i in np.flatnonzero(result.x > 0.5)}
        return ones, bound / unit

    def cp_sat(self, best: Choice, work: float) -> tuple[set[int], float]:
        """OR-Tools' CP-SAT for so many deterministic seconds, from the best plan so far; integers throughout."""
        from ortools.sat.python import cp_model

        model, problem = cp_model.CpModel(), self.problem
        columns = [model.new_bool_var(f"x{i}") if ok else model.new_constant(0) for i, ok in enumerate(self.allowed)]
        for helpers, asking in self.constraints:
            clause = [columns[i] for i in helpers]
            model.add_bool_or([*clause, columns[asking].negated()] if asking >= 0 else clause)
        model.add(cp_model.LinearExpr.weighted_sum(columns, self.sizes) <= best.budget)
        model.minimize(cp_model.LinearExpr.weighted_sum(columns, self.costs))
        first, again = len(problem.values), problem.repeated(best.kept, best.narrowed)
        for i, ok in enumerate(self.allowed[: first + len(problem.operators)]):
            if ok:
                model.add_hint(columns[i], i in best.kept if i < first else i - first in again)
        solver = cp_model.CpSolver()
        solver.parameters.absolute_gap_limit = PROOF * problem.forward_cost
        solver.parameters.max_deterministic_time = work
        solver.parameters.random_seed = 1
        solver.parameters.num_workers = 1
        solver.parameters.catch_sigint_signal = False  # Ctrl-C is ours: it ends the search, not one solve
        if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return set(), 0.0
        return {i for i, column in enumerate(columns) if solver.boolean_value(column)}, solver.best_objective_bound
