"""What an allocation chooses from: for every operator its legal placements, as genes.

A *form* is a core design and either one core of it or a split: one or two dimensions (of the result, or summed over:
then cores add up their sums), over how many cores. A *position* says
which cores: the place of the first, the others follow in order. Two genes each, so that a search can move an operator
without changing how it is split, and the other way round. Operators may share their genes (equal layers).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from monet.errors import MonetError
from monet.hardware.accelerator import CoreInstance
from monet.mapping.errors import DoesNotFit
from monet.schedule.engine import Scheduler
from monet.schedule.expansion.geometry import make_steps
from monet.schedule.plan import Placement, Split
from monet.schedule.planning.designs import cannot_run
from monet.schedule.planning.placement import default_placement
from monet.schedule.planning.splits import allowed_dims
from monet.schedule.workload import Operator
from monet.search.genetic import Genome

Form = tuple[Placement, ...]  # one design, split the same way, at all positions
FEW_CORES = 4  # up to so many, an operator may be split over any number of them; above, over powers of two


def forms_of(scheduler: Scheduler, operator: Operator, splits: bool = True) -> tuple[Form, ...]:
    """Every legal form of an operator, one-core forms first; those only without ``splits``. A transfer has its port."""
    if operator.is_transfer:
        return ((default_placement(operator, scheduler.costs, 1.0),),)
    able = [cores for cores in scheduler.machine.accelerator.like_cores if _runs_on(scheduler, operator, cores[0])]
    found: list[Form] = [tuple(Placement((core.name,)) for core in cores) for cores in able]
    allowed = allowed_dims(operator) if splits else frozenset[str]()
    dims = [(dim, operator.nest.granules(dim)) for dim, size in operator.nest.dims if dim in allowed and size > 1]
    for cores in able:
        for dim, size in dims:
            found += [_windows(cores, ((dim, pieces),)) for pieces in _pieces(len(cores)) if pieces <= size]
        found += [_windows(cores, split) for split in _squares(dims, _pieces(len(cores)))]
    return tuple(found)


def _squares(dims: Sequence[tuple[str, int]], counts: Sequence[int]) -> Iterator[Split]:
    """Two dimensions at once: each number of cores as a product that is as near to a square as it can be."""
    for count in counts:
        near = max(parts for parts in range(1, math.isqrt(count) + 1) if count % parts == 0)
        if near == 1:
            continue
        for (first, size), (second, other) in itertools.combinations(dims, 2):
            for here in dict.fromkeys((count // near, near)):
                if here <= size and count // here <= other:
                    yield (first, here), (second, count // here)


def _runs_on(scheduler: Scheduler, operator: Operator, core: CoreInstance) -> bool:
    if cannot_run(operator, core):
        return False
    if operator.is_matrix:
        return True
    try:
        scheduler.costs.cost(operator, make_steps(operator.nest, {}), 0, core, False, 1.0)
    except DoesNotFit:
        return True  # a piece of it may
    except MonetError:
        return False
    return True


def _pieces(cores: int) -> list[int]:
    if cores <= FEW_CORES:
        return list(range(2, cores + 1))
    powers = [1 << bit for bit in range(1, cores.bit_length()) if 1 << bit < cores]
    return [*powers, cores]


def _windows(cores: Sequence[CoreInstance], split: Split) -> Form:
    """Neighbouring cores, from each on; among many cores from every ``pieces``-th on. All cores: one way only."""
    count, pieces = len(cores), math.prod(parts for _, parts in split)
    step = 1 if count <= FEW_CORES else pieces
    starts = range(0, count, step) if pieces < count else range(1)
    return tuple(Placement(tuple(cores[(at + n) % count].name for n in range(pieces)), split) for at in starts)


@dataclass(frozen=True)
class AllocationSpace:
    """Genes of an allocation: of every class of operators a form and a position.

    ``classes``: numbers of the operators that share genes; ``forms``: what each class may choose.
    """

    scheduler: Scheduler
    classes: tuple[tuple[int, ...], ...]
    forms: tuple[tuple[Form, ...], ...]

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Values of every gene."""
        return tuple(n for forms in self.forms for n in (len(forms), max(len(form) for form in forms)))

    @cached_property
    def size(self) -> float:
        """Allocations in the space (as a float: it may be astronomic)."""
        total = 1.0
        for forms in self.forms:
            total *= sum(len(form) for form in forms)
        return total

    def repair(self, genome: Genome) -> Genome:
        """Positions beyond those of their form are wrapped around, so that equal allocations are equal genomes."""
        found = list(genome)
        for number, forms in enumerate(self.forms):
            found[2 * number + 1] %= len(forms[found[2 * number]])
        return tuple(found)

    def placements(self, genome: Genome) -> dict[str, Placement]:
        """The allocation that a genome says."""
        operators, found = self.scheduler.workload.operators, dict[str, Placement]()
        for number, (members, forms) in enumerate(zip(self.classes, self.forms, strict=True)):
            form = forms[genome[2 * number]]
            chosen = form[genome[2 * number + 1] % len(form)]
            found |= {operators[member].op.name: chosen for member in members}
        return found

    def genome(self, placements: Mapping[str, Placement]) -> Genome:
        """The genome of an allocation; of a class the placement of its first operator counts. A placement that the
        space does not have becomes the first form with its split, or else the first form."""
        found: list[int] = []
        for members, forms in zip(self.classes, self.forms, strict=True):
            wanted = placements[self.scheduler.workload.operators[members[0]].op.name]
            found += _nearest(forms, wanted)
        return tuple(found)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The first operator of every class."""
        return tuple(self.scheduler.workload.operators[members[0]].op.name for members in self.classes)


def _nearest(forms: Sequence[Form], wanted: Placement) -> tuple[int, int]:
    for number, form in enumerate(forms):
        if wanted in form:
            return number, form.index(wanted)
    for number, form in enumerate(forms):
        if form[0].split == wanted.split and form[0].cores[0] == wanted.cores[0]:
            return number, 0
    return 0, 0


def space_of(
    scheduler: Scheduler, *, shared: bool, given: Sequence[Mapping[str, Placement]] = (), splits: bool = True
) -> AllocationSpace:
    """The space of all operators; ``shared``: operators that cost the same (equal layers) share their genes. Without
    ``splits`` every operator runs on one core. Placements of ``given`` allocations that it would not have are added."""
    members: dict[tuple[str, int], list[int]] = {}
    by_key: dict[str, tuple[Form, ...]] = {}
    for operator in scheduler.workload.operators:
        members.setdefault((operator.key, 0 if shared else operator.number), []).append(operator.number)
    classes, forms = [], []
    for (key, _), numbers in members.items():
        operator = scheduler.workload.operators[numbers[0]]
        if key not in by_key:
            by_key[key] = forms_of(scheduler, operator, splits)
        mine = by_key[key]
        for allocation in given:
            for number in numbers:
                wanted = allocation.get(scheduler.workload.operators[number].op.name)
                if wanted and not any(wanted in form for form in mine):
                    mine = (*mine, (wanted,))
        classes.append(tuple(numbers))
        forms.append(mine)
    return AllocationSpace(scheduler, tuple(classes), tuple(forms))
