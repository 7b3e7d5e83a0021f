"""Pipelines: closed forms for equal stages, a plain event simulation for random ones, bounds that nothing is below."""

from itertools import pairwise

import numpy as np
import pytest

from monet.distributed.pipelines.pipeline import PipelineWork, held_micro_batches, simulate, tasks_of
from monet.distributed.pipelines.pipeline_kernels import BACKWARD, FORWARD, WEIGHT
from monet.errors import MonetError


def equal(stages, micro_batches, chunks=1, forward=1.0, backward=2.0, weight=0.0):
    seconds = np.zeros((3, stages * chunks, micro_batches))
    seconds[FORWARD], seconds[BACKWARD], seconds[WEIGHT] = forward / chunks, backward / chunks, weight / chunks
    none, sends = np.zeros(stages), np.zeros(stages * chunks)
    return PipelineWork(stages, seconds, sends, sends, none, none)


def random_work(generator, split=False):
    stages, chunks = int(generator.integers(1, 7)), 1 if split else int(generator.integers(1, 4))
    micro_batches = int(generator.integers(1, 5)) * (stages if chunks > 1 else 1)
    seconds = generator.uniform(0.1, 3, (3, stages * chunks, micro_batches))
    if not split:
        seconds[WEIGHT] = 0
    sends = generator.uniform(0, 0.5, (2, stages * chunks))
    ends = generator.uniform(0, 1, (2, stages))
    return PipelineWork(stages, seconds, sends[0], sends[1], ends[0], ends[1], bool(generator.integers(2)))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 5), (2, 2), (4, 8), (8, 8), (8, 64)])
def test_equal_stages(schedule, stages, micro_batches):
    times = simulate(equal(stages, micro_batches), schedule)
    assert times.seconds == pytest.approx((micro_batches + stages - 1) * 3)
    assert np.allclose(times.bubble, (stages - 1) * 3)


@pytest.mark.parametrize("chunks", [1, 2, 3, 4])
def test_interleaving_divides_the_bubble(chunks):
    times = simulate(equal(4, 16, chunks), "1f1b")
    assert np.allclose(times.bubble, 3 * 3 / chunks)


def test_one_forward_one_backward_holds_fewer_micro_batches():
    assert simulate(equal(4, 8), "gpipe").held().tolist() == [8, 8, 8, 8]
    assert simulate(equal(4, 8), "1f1b").held().tolist() == [4, 3, 2, 1]
    assert simulate(equal(4, 8), "gpipe").seconds == simulate(equal(4, 8), "1f1b").seconds


def test_zero_bubble_fills_the_waits_with_gradients_of_weights():
    whole, split = equal(8, 32), equal(8, 32, forward=1, backward=1, weight=1)
    times = simulate(split, "zero-bubble")
    assert times.seconds < simulate(whole, "1f1b").seconds - 10  # of 21 seconds of bubble
    assert times.seconds >= 32 * 3 + 7  # the last stage waits for its first forward pass
    assert times.held().max() <= 8


def test_activations_are_held_until_gradients_of_weights_are_there():
    def held(*tasks):
        order = np.array([2 * kind + micro for kind, micro in tasks])  # one stage, one chunk, two micro-batches
        return held_micro_batches(order, np.array([0, len(order)]), 1, 2).tolist()

    late = (FORWARD, 0), (BACKWARD, 0), (FORWARD, 1), (BACKWARD, 1), (WEIGHT, 0), (WEIGHT, 1)
    assert held(*late) == [2]
    assert held(*(late[number] for number in (0, 1, 4, 2, 3, 5))) == [1]
    assert held(*late[:4]) == [1]  # with gradients of weights in backward


@pytest.mark.parametrize(("stages", "chunks"), [(4, 2), (4, 3), (2, 2)])
def test_interleaved_stages_warm_up_as_published(stages, chunks):
    """Two forward passes for every stage behind, and all chunks but one for as many micro-batches as stages
    (Narayanan et al., 2021); the first backward pass follows one more."""
    for stage, tasks in enumerate(tasks_of("1f1b", stages, stages * chunks, 4 * stages)):
        first = [is_forward for is_forward, *_ in tasks].index(False)
        assert first == 2 * (stages - stage - 1) + (chunks - 1) * stages + 1


def test_interleaving_needs_whole_groups():
    with pytest.raises(MonetError, match="multiples of 4, not 6; nearest: 4 and 8"):
        simulate(equal(4, 6, 2), "1f1b")


def test_a_thousand_random_pipelines_are_above_every_bound():
    generator = np.random.default_rng(17)
    for number in range(1000):
        split = number % 4 == 3
        work = random_work(generator, split)
        schedule = "zero-bubble" if split else ("gpipe", "1f1b")[number % 2]
        times = simulate(work, schedule)
        assert times.seconds >= work.busy().max() - 1e-9
        through = work.seconds[:2].sum(axis=(0, 1)) + work.send_forward[:-1].sum() + work.send_backward[1:].sum()
        assert times.seconds >= through.max() + work.head[0] + work.tail[0] - 1e-9
        assert times.seconds <= work.seconds.sum() + work.head.sum() + work.tail.sum() + work.micro_batches * (
            work.send_forward.sum() + work.send_backward.sum()
        )


def plain(work, order, pointer):
    """The same times from dependencies alone: relax until nothing moves."""
    chunks, micro_batches, stages = work.chunks, work.micro_batches, work.stages
    tasks = [
        [tuple(int(x) for x in np.unravel_index(task, (3, chunks, micro_batches))) for task in order[a:b]]
        for a, b in pairwise(pointer)
    ]
    end = {}
    for _ in range(3 * chunks * micro_batches):
        before = dict(end)
        for stage in range(stages):
            free, links = work.head[stage], {FORWARD: 0.0, BACKWARD: 0.0}
            for kind, chunk, micro in tasks[stage]:
                source = {FORWARD: (FORWARD, chunk - 1, micro), BACKWARD: (BACKWARD, chunk + 1, micro)}.get(kind)
                ready = end.get(("arrived", *source), 0.0) if source and 0 <= source[1] < chunks else 0.0
                if kind == BACKWARD and chunk == chunks - 1:
                    ready = end.get((FORWARD, chunk, micro), 0.0)
                done = max(free, ready) + work.seconds[kind, chunk, micro]
                end[kind, chunk, micro] = free = done
                sends = work.send_forward if kind == FORWARD else work.send_backward
                hands_on = (kind == FORWARD and chunk < chunks - 1) or (kind == BACKWARD and chunk > 0)
                if hands_on:
                    links[kind] = max(done, links[kind]) + sends[chunk]
                    end["arrived", kind, chunk, micro] = links[kind]
                    free = links[kind] if work.blocking else done
        if before == end:
            return end
    raise AssertionError("does not settle")


@pytest.mark.parametrize("seed", range(12))
def test_times_are_those_of_the_dependencies_alone(seed):
    generator = np.random.default_rng(seed)
    split = seed % 3 == 2
    work = random_work(generator, split)
    times = simulate(work, "zero-bubble" if split else "1f1b")
    expected = plain(work, times.order, times.pointer)
    for kind in range(3 if split else 2):
        for chunk in range(work.chunks):
            for micro in range(work.micro_batches):
                assert times.end[kind, chunk, micro] == pytest.approx(expected[kind, chunk, micro])
