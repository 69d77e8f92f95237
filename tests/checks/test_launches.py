"""Launches are counted as the host makes them."""

from __future__ import annotations

import torch

from gpututor.checks import launches
from gpututor.trace.columns import Trace
from gpututor.trace.events import GRAPH_REPLAY, Kind
from tests.support.check_runs import failure, run_of
from tests.support.recorded_programs import recorded

LOOP = """import torch
def work(n):
    x = torch.ones(8, device="cuda")
    for _ in range(n):
        x = x * 2
    return x
"""
AT_ONCE = """import torch
def work(n):
    x = torch.ones(8, device="cuda")
    return x * 2**n
"""
REPLAYED = """import torch
def work(n):
    x = torch.ones(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
        for _ in range(n):
            y = y * 2
    graph.replay()
    graph.replay()
    return y
"""


def test_a_loop_of_small_kernels_fails_and_a_single_kernel_passes() -> None:
    check = launches((1, 3))

    assert check.find(recorded(AT_ONCE, {"n": 20})) is None
    finding = failure(check, recorded(LOOP, {"n": 20}))
    assert finding.expected.startswith("1 to 3 launches")
    assert finding.got.startswith("21 launches, ")
    assert "line 5 (20 times)" in finding.got
    assert finding.line == 5


def test_a_graphs_replay_is_one_launch() -> None:
    run = recorded(REPLAYED, {"n": 20})

    assert sum(event.kind is Kind.KERNEL for event in run.calls[0].trace) == 1 + 2 * 21
    assert launches(3).find(run) is None
    assert launches(by_name={"aten::mul": 2}).find(run) is None


def test_a_replay_on_a_real_gpu_may_contain_any_operator() -> None:
    trace = Trace()
    trace.add(Kind.KERNEL, "aten::mul", "cuda:0", launched=1)
    for moment in (2, 3):
        trace.add(Kind.KERNEL, GRAPH_REPLAY, "cuda:0", launched=moment)
    run = run_of(None, trace=trace)

    assert launches(by_name={"aten::mul": (3, None)}).find(run) is None
    assert launches(by_name={"aten::mul": (4, None)}).find(run) is not None
    assert launches(by_name={"aten::mul": 0}).find(run) is not None
    assert launches((4, None)).find(run) is not None


def test_operators_are_counted_by_patterns_of_their_names() -> None:
    run = recorded(LOOP, {"n": 2})

    assert launches(by_name={"aten::mul": 2, "aten::*mm": 0}).find(run) is None
    finding = failure(launches(by_name={"aten::*mm": 1}), run)
    assert finding.expected.startswith("1 launch of aten::*mm")
    assert "aten::mul" in finding.got
    assert finding.line is not None
    finding = failure(launches(by_name={"aten::mul": 1}), run)
    assert finding.got == "2 launches of aten::mul, at line 5 (2 times) (with n=2)", "no name twice"


def test_amounts_can_depend_on_each_call_and_lack_an_upper_limit() -> None:
    check = launches(by_name={"aten::mul": lambda drawn, machine: (0, 2 * machine.gpus)})
    at_least = launches(by_name={"aten::mul": (3, None)})
    few, many = recorded(LOOP, {"n": 2}, {"n": 1}), recorded(LOOP, {"n": 2}, {"n": 3})

    assert check.find(few) is None
    assert "call 2 of 2" in failure(check, many).got
    assert failure(at_least, few).expected.startswith("at least 3 ")
    assert at_least.find(recorded(LOOP, {"n": 4})) is None


def test_cpu_work_is_no_launch_and_untimed_kernels_are_separate_launches() -> None:
    trace = Trace()
    trace.add(Kind.KERNEL, "aten::mul", "cpu", launched=5)
    trace.add(Kind.KERNEL, "aten::mul", "cuda:0")
    trace.add(Kind.KERNEL, "aten::mul", "cuda:0")
    trace.add(Kind.KERNEL, "aten::mul", "cuda:1", launched=5)

    assert launches(3).find(run_of(None, {"x": torch.ones(1)}, trace=trace)) is None
