"""Compilations and graph breaks are counted, with their lines and reasons."""

from __future__ import annotations

from gpututor.checks import compilations
from tests.support.check_runs import failure
from tests.support.recorded_programs import recorded

BROKEN = """import torch
def step(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y
def work(n):
    torch.compiler.reset()
    compiled = torch.compile(step)
    for _ in range(n):
        compiled(torch.ones(8, device="cuda"))
"""
SHAPES = """import torch
def work(n, dynamic):
    torch.compiler.reset()
    compiled = torch.compile(lambda x: (x * 2).relu(), dynamic=dynamic)
    for rows in range(2, 2 + n):
        compiled(torch.ones(rows, device="cuda"))
"""
EAGER = """import torch
def work():
    return torch.ones(8, device="cuda") * 2
"""


def test_graph_breaks_fail_with_their_lines_and_reasons() -> None:
    run = recorded(BROKEN, {"n": 3})

    assert compilations(2, breaks=(1, 2)).find(run) is None  # PyTorch 2.11 reports the break twice
    finding = failure(compilations(breaks=0), run)
    assert finding.line == 4
    assert finding.expected.startswith("no graph break")
    assert " line 4 (Data-dependent branching" in finding.got
    assert failure(compilations(1, breaks=(0, 2)), run).got.startswith("2 compiled graphs")


def test_compiling_again_fails_with_the_guard_and_once_for_all_shapes_passes() -> None:
    fixed = recorded(SHAPES, {"n": 4, "dynamic": False})

    assert compilations(1).find(recorded(SHAPES, {"n": 4, "dynamic": True})) is None
    assert compilations(lambda drawn, machine: (1, drawn["n"])).find(fixed) is None
    finding = failure(compilations(1), fixed)
    assert finding.got.startswith("4 compiled graphs")
    assert "size mismatch at index 0" in finding.got
    assert finding.line == 6


def test_code_that_is_not_compiled_fails() -> None:
    finding = failure(compilations((1, None)), recorded(EAGER))
    assert finding.expected.startswith("at least 1 compiled graph")
    assert finding.got.startswith("none")
