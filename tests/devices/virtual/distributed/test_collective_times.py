"""Start and end of collectives between two processes, in nanoseconds on the virtual clock."""

from __future__ import annotations

from typing import Any

import pytest

from gpututor.devices.virtual.cost.links import collective_s
from gpututor.hardware.gpus import gpu_spec
from tests.support import clock_programs
from tests.support.ranks import RANKS, results_of

Results = list[dict[str, Any]]
results = results_of(clock_programs.__name__)
repeated_results = results_of(clock_programs.__name__)
t4_results = results_of(clock_programs.__name__, "ONE_COLLECTIVE", model="T4")
Interval = tuple[int, int]


def _ns(name: str, size_bytes: int, model: str = "A100") -> int:
    return round(collective_s(gpu_spec(model), name, size_bytes, RANKS) * 1e9)


def _meet(interval: Interval, other: Interval) -> bool:
    return max(interval[0], other[0]) < min(interval[1], other[1])


@pytest.mark.long
def test_all_ranks_begin_when_the_slowest_is_ready(results: Results) -> None:
    slow, fast = (rank["slower_rank"] for rank in results)
    assert fast["ready"] < slow["ready"]
    for rank in (slow, fast):
        start, end = rank["collective"]
        assert start == slow["ready"]
        assert end - start == _ns("all_reduce", 4 << 20)
        assert rank["next"][0] == end
        assert rank["host continued"]
        assert rank["bytes"] == 4 << 20


def test_other_work_overlaps_a_pending_collective(results: Results) -> None:
    for rank in results:
        (collective,), (beside,), (after,), hazards = rank["overlap"]
        assert _meet(collective, beside)
        assert after[0] == collective[1]
        assert hazards == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("used_too_early", ["write after write"]),
        ("polled", True),
        ("captured", "The virtual GPU does not support c10d::allreduce_ in CUDA graphs."),
        ("sent_without_sync", []),
    ],
)
def test_a_program_has_the_same_result_on_each_rank(results: Results, name: str, expected: object) -> None:
    assert [rank[name] for rank in results] == [expected] * RANKS


def test_a_future_callback_runs_after_its_collective(results: Results) -> None:
    for rank in results:
        (collective, beside, chained, last), hazards, value = rank["chained"]
        assert _meet(collective, beside)
        assert collective[1] == chained[0]
        assert chained[1] == last[0]
        assert hazards == []
        assert value == 2.0 * RANKS - 1


def test_a_functional_collective_is_waited_for_immediately(results: Results) -> None:
    for rank in results:
        (collective, beside, after), hazards = rank["functional_result"]
        assert collective[1] <= beside[0] < after[0]
        assert hazards == []


def test_a_compiled_collective_follows_the_kernel_of_its_input(results: Results) -> None:
    for rank in results:
        (before, collective, after), value, is_named = rank["compiled_collective"]
        assert before[1] <= collective[0] < collective[1] <= after[0]
        assert (value, is_named) == (3.0 * RANKS + 1, True)


def test_a_message_arrives_after_it_was_sent_and_both_ways_at_once(results: Results) -> None:
    sent, received = (rank["messages"] for rank in results)
    assert sent == received
    assert [end - start for start, end in sent] == [_ns("send", 4 << 20)] * 2
    for rank in results:
        sent, received = rank["both_ways"]
        assert _meet(sent, received)


def test_hosts_have_the_same_time_after_barriers_waits_and_uneven_collectives(results: Results) -> None:
    for name in ("barrier", "never_waited_for", "uneven"):
        assert results[0][name] == results[1][name], name
    assert results[0]["barrier"][1] == ["c10d::barrier"]
    assert results[0]["never_waited_for"][2]


def test_groups_have_their_own_streams_and_ranks(results: Results) -> None:
    (slow_alone, slow_both), (fast_alone, fast_both) = (rank["smaller_group"] for rank in results)
    assert fast_alone[1] < slow_alone[1]
    assert slow_both == fast_both
    assert slow_alone[0] != slow_both[0]


def test_with_gloo_the_host_waits(results: Results) -> None:
    slow, fast = (rank["over_gloo"] for rank in results)
    assert slow == fast
    start, end, after, waits = slow
    assert end - start > _ns("all_reduce", 4 << 20)
    assert after == end
    assert waits == ["c10d::allreduce_"]


def test_predicting_a_ranks_start_does_not_affect_later_work(results: Results) -> None:
    for rank in results:
        before, beside = rank["on_another_stream"]
        assert _meet(before, beside)


@pytest.mark.parametrize("name", ["ddp", "ddp_with_a_hook"])
def test_ddp_reduces_gradients_while_backward_computes_others(results: Results, name: str) -> None:
    for collectives, kernels, hazards, ((after, _),) in (rank[name] for rank in results):
        assert len(collectives) > 3
        assert all(any(_meet(work, kernel) for kernel in kernels) for work in collectives[:-1])
        # Who uses the gradients waits for the last of them.
        assert after >= collectives[-1][1]
        assert hazards == []
    assert results[0][name][0] == results[1][name][0]


def test_the_wait_for_other_ranks_is_recorded(results: Results) -> None:
    slow, fast = (rank["waited_for_others"] for rank in results)
    assert slow == []
    assert len(fast) == 1
    assert fast[0] > 5_000_000


@pytest.mark.long
def test_collective_times_are_reproducible(results: Results, repeated_results: Results) -> None:
    assert results == repeated_results


@pytest.mark.long
def test_a_collective_takes_the_time_of_the_link(results: Results, t4_results: Results) -> None:
    nvlink, pcie = (rank["slower_rank"]["collective"] for rank in (results[0], t4_results[0]))
    assert nvlink[1] - nvlink[0] == _ns("all_reduce", 4 << 20)
    assert pcie[1] - pcie[0] == _ns("all_reduce", 4 << 20, "T4")
    assert pcie[1] - pcie[0] > 4 * (nvlink[1] - nvlink[0])
