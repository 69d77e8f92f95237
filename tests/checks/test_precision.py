"""Precision: the dtypes of operators, read from the trace."""

from __future__ import annotations

import pytest
import torch

from gpututor.checks import precision
from gpututor.grading.report import Status
from gpututor.trace.columns import Trace
from gpututor.trace.events import Kind, compute_dtype
from tests.support.check_runs import failure, run_of
from tests.support.recorded_programs import recorded

FORWARD = """import torch
def work(x, w):
    x, w = x.cuda(), w.cuda()
    with torch.autocast("cuda", dtype={dtype}, enabled={enabled}):
        scores = x @ w
        return torch.softmax(scores, -1)
"""
BY_HAND = """import torch
def work(x, w):
    return torch.softmax(x.cuda().half() @ w.cuda().half(), -1)
"""
INPUTS = {"x": torch.ones(16, 32), "w": torch.ones(32, 8)}
CHECK = precision({"aten::mm": "float16", "aten::_softmax": "float32"}, half_share=0.9)


def forward(dtype: str = "torch.float16", enabled: bool = True) -> str:
    return FORWARD.format(dtype=dtype, enabled=enabled)


def test_autocast_passes_and_a_float32_product_fails() -> None:
    assert CHECK.find(recorded(forward(), INPUTS)) is None
    finding = failure(CHECK, recorded(forward(enabled=False), INPUTS))
    assert (finding.expected, finding.line) == ("aten::mm in float16", 5)
    assert finding.got.startswith("1 of 1 in float32")


def test_everything_in_half_by_hand_fails_at_the_softmax() -> None:
    finding = failure(CHECK, recorded(BY_HAND, INPUTS))

    assert (finding.expected, finding.line) == ("aten::_softmax in float32", 3)
    assert finding.got.startswith("1 of 1 in float16")


def test_several_types_can_be_allowed_and_patterns_match() -> None:
    run = recorded(forward("torch.bfloat16"), INPUTS)

    assert failure(CHECK, run).got.startswith("1 of 1 in bfloat16")
    assert precision({"aten::*mm": ("float16", "bfloat16")}).find(run) is None
    assert precision({"aten::exp|aten::_softmax": "float32"}).find(run) is None
    assert failure(precision({"aten::exp|aten::*mm": "float32"}), run).got.startswith("1 of 1 in bfloat16")


def test_the_half_share_is_of_floating_point_operations() -> None:
    mixed = """import torch
def work(x, w):
    x, w = x.cuda(), w.cuda()
    for _ in range(3):
        x.half() @ w.half()
    x @ w
"""
    run = recorded(mixed, INPUTS)

    assert precision(half_share=0.75).find(run) is None
    finding = failure(precision(half_share=0.76), run)
    assert finding.got.startswith("75 % of 32,768 ")
    assert finding.line == 6


def test_a_training_step_under_autocast_multiplies_in_half_backward_too() -> None:
    step = """import torch
def work(x):
    model = torch.nn.Linear(32, 8, device="cuda")
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("cuda", enabled={enabled}):
        loss = model(x.cuda()).square().mean()
    loss.backward()
    optimiser.step()
"""
    inputs = {"x": torch.ones(16, 32)}

    assert precision(half_share=0.99).find(recorded(step.format(enabled=True), inputs)) is None
    assert "0 %" in failure(precision(half_share=0.01), recorded(step.format(enabled=False), inputs)).got


def test_the_kernels_of_a_replayed_graph_are_seen() -> None:
    graph = """import torch
def work():
    x = torch.ones(8, 8, device="cuda", dtype=torch.float16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x @ x
    graph.replay()
"""
    assert precision({"aten::mm": "float16"}).find(recorded(graph)) is None
    assert "in float16" in failure(precision({"aten::mm": "float32"}), recorded(graph)).got


def test_no_kernels_fail_and_a_graphs_replay_is_inconclusive() -> None:
    replay = Trace()
    replay.add(Kind.KERNEL, "cuda graph", "cuda:0", flops=100.0)

    assert failure(CHECK, run_of(None)).got.startswith("no aten::mm ran")
    assert "no products" in failure(precision(half_share=0.1), run_of(None)).got
    for check in (CHECK, precision(half_share=0.1)):
        assert failure(check, run_of(None, trace=replay)).status is Status.INCONCLUSIVE
    on_cpu = "def work(x, w):\n    return x.half() @ w.half()\n"
    assert failure(CHECK, recorded(on_cpu, INPUTS)).got.startswith("no aten::mm ran")


@pytest.mark.parametrize(
    ("inputs", "outputs", "dtype"),
    [
        (["float16"], ["float32"], "float32"),
        (["float32"], ["float16"], "float32"),
        (["bool", "float16", "float32"], ["float16"], "float16"),
        (["int64"], ["int64"], ""),
        ([], ["bfloat16"], "bfloat16"),
        (["complex64"], ["float32"], "complex64"),
    ],
)
def test_an_operator_runs_in_the_wider_of_its_first_input_and_output(
    inputs: list[str], outputs: list[str], dtype: str
) -> None:
    assert compute_dtype(inputs, outputs) == dtype
