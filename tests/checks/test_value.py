"""Value: plain results, compared with the author's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gpututor.checks import Machine, value
from tests.support.check_runs import GPU, NO_GPU, failure, observed, run_of

X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (3, 3),
        (0.1 + 0.2, 0.3),
        (torch.device("cuda:0"), torch.device("cuda", 0)),
        ({"a": [1, None, "b"]}, {"a": [1, None, "b"]}),
        (np.arange(3), np.arange(3)),
        (X, X),
    ],
    ids=str,
)
def test_equal_values_pass(expected: Any, got: Any) -> None:
    assert value(lambda drawn, machine: expected).find(run_of(observed(got))) is None


@pytest.mark.parametrize(
    ("expected", "got", "words"),
    [
        (3, 4, "4 instead of 3"),
        (1, True, "instead of an int"),
        (0.3, 0.3001, "0.3001 instead of 0.3"),
        ([1, 2], (1, 2), "instead of a list"),
        ([1, 2], [1], "the result is a list of length 1 instead of 2"),
        (torch.device("cuda:1"), torch.device("cuda:0"), "device(type='cuda', index=0)"),
        (torch.device("cuda:1"), "cuda:1", "instead of a device"),
        (np.arange(3), np.arange(3)[::-1], "instead of"),
        (float("nan"), 1.0, "instead of nan"),
    ],
    ids=str,
)
def test_the_difference_is_named(expected: Any, got: Any, words: str) -> None:
    assert words in failure(value(lambda drawn, machine: expected), run_of(observed(got))).got


@pytest.mark.parametrize(("result", "machine"), [(3, GPU), (0, NO_GPU)])
def test_the_expected_value_can_depend_on_machine_and_inputs(result: int, machine: Machine) -> None:
    check = value(lambda drawn, machine: drawn["n"] * machine.gpus)
    assert check.find(run_of(result, {"n": 3}, machine=machine)) is None


def test_the_inputs_of_the_call_are_named_the_first_four() -> None:
    inputs = {"rows": 2, "x": X, "weights": [X], "dtype": torch.int8, "name": "a", "peak": 0.5}
    got = failure(value(lambda drawn, machine: 3), run_of(4, inputs)).got
    assert got.endswith("(with rows=2, x of shape (2, 3), dtype=torch.int8, name='a', …)")


def test_a_large_expected_result_starts_with_the_part_that_differs() -> None:
    def large(wrong: str = "") -> dict[str, list[float]]:
        return {name: [0.0 if name == wrong else 1.0] * 50 for name in "abcdef"}

    finding = failure(value(lambda drawn, machine: large()), run_of(observed(large("e"))))
    assert finding.expected.startswith("result['e'][0] is 1.0;")
    assert len(finding.expected) < 300
