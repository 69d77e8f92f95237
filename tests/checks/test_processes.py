"""Collectives are counted, and their bytes added up, for each rank."""

from __future__ import annotations

from dataclasses import replace

from gpututor.checks import collectives
from gpututor.checks.model import Run
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind
from tests.support.check_runs import failure, run_of


def run_with(*ranks: list[tuple[str, int, int]], steps: int = 2) -> Run:
    """Return a run whose ranks did these collectives: (name, bytes, line)."""
    run = run_of(None, {"steps": steps})
    calls = []
    for events in ranks:
        trace = Trace()
        for name, size_bytes, line in events:
            trace.add(Kind.COLLECTIVE, name, "cuda:0", size_bytes=size_bytes, line=line)
        calls.append(replace(run.calls[0], trace=trace))
    return replace(run, calls=(replace(run.calls[0], ranks=tuple(calls)),))


SUM, SHARDS = ("c10d::allreduce_", 96, 7), ("c10d::_allgather_base_", 48, 9)


def test_a_rank_that_does_more_collectives_is_named_with_its_line() -> None:
    check = collectives({"allreduce": 2})

    assert check.find(run_with([SUM, SUM, SHARDS], [SUM, SUM])) is None
    finding = failure(check, run_with([SUM, SUM], [SUM, SUM, SUM]))
    assert "in rank 1" in finding.got
    assert "line 7 (3 times)" in finding.got
    assert finding.line == 7


def test_bytes_are_added_up_whatever_the_number_of_collectives() -> None:
    check = collectives(bytes_by_name={"allreduce": lambda drawn, machine: int(96 * drawn["steps"])})
    half = ("_c10d_functional::all_reduce", 48, 8)

    assert check.find(run_with([SUM, SUM], [SUM, half, half])) is None
    assert "480 bytes" in failure(check, run_with([SUM] * 5, [SUM] * 5)).got


def test_names_match_without_underscores_and_an_empty_name_is_all() -> None:
    run = run_with([SUM, SHARDS], [SUM, SHARDS])

    assert collectives({"allgather": 1, "": 2}).find(run) is None
    assert failure(collectives({"reducescatter": (1, None)}), run).got.startswith("no reducescatters in rank 0")
