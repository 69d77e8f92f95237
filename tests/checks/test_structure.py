"""Structure: type, nesting, shapes, dtypes and strides of results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gpututor.checks import placement, structure
from gpututor.errors import CourseError
from tests.support.check_runs import failure, observed, run_of

X = torch.arange(6.0).reshape(2, 3)


def pair(x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"double": 2 * x, "sizes": torch.tensor(x.shape)}


def net(*layers: torch.nn.Module) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 2), *layers)


def with_table(*, learned: bool) -> dict[str, torch.nn.Module]:
    model = torch.nn.Sequential(torch.nn.ReLU())
    table = torch.ones(2)
    if learned:
        model[0].register_parameter("table", torch.nn.Parameter(table))
    else:
        model[0].register_buffer("table", table)
    return {"model": model}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (X, "instead of a dict"),
        ({"double": X}, "without 'sizes'"),
        ({"double": X, "sizes": torch.tensor([2, 3]), "more": 1}, "with the unexpected 'more'"),
        ({"double": X[:1], "sizes": torch.tensor([2, 3])}, "shape (1, 3) instead of (2, 3)"),
        ({"double": X.double(), "sizes": torch.tensor([2, 3])}, "torch.float64 instead of torch.float32"),
        ({"double": None, "sizes": torch.tensor([2, 3])}, "instead of a tensor"),
    ],
)
def test_the_part_that_differs_is_named(result: Any, words: str) -> None:
    assert structure(pair).find(run_of(observed(pair(X)), {"x": X})) is None
    finding = failure(structure(pair), run_of(observed(result), {"x": X}))
    assert words in finding.got
    assert finding.line == 6


def test_arrays_are_not_tensors_and_a_failing_reference_is_the_courses_error() -> None:
    check = structure(lambda x: x.numpy())

    assert check.find(run_of(observed(X.numpy()), {"x": X})) is None
    assert "instead of a NumPy array" in failure(check, run_of(observed(X), {"x": X})).got
    assert "(3,)" in failure(check, run_of(observed(np.zeros(3, np.float32)), {"x": X})).got
    with pytest.raises(CourseError, match="the reference failed: ZeroDivisionError"):
        structure(lambda x: 1 / 0).find(run_of(observed(X), {"x": X}))


@pytest.mark.parametrize("learned", [True, False])
def test_a_buffer_is_not_a_parameter(learned: bool) -> None:
    check = structure(lambda: with_table(learned=not learned))

    assert check.find(run_of(observed(with_table(learned=not learned)))) is None
    finding = failure(check, run_of(observed(with_table(learned=learned))))
    wrong, right = ("parameter", "buffer") if learned else ("buffer", "parameter")
    assert f"'0.table' is a {right};" in finding.expected
    assert finding.got.endswith(f"'0.table' is a {wrong} instead of a {right}")


def test_a_module_is_not_a_dict_and_its_layers_count() -> None:
    check = structure(lambda: net(torch.nn.ReLU()))

    assert check.find(run_of(observed(net(torch.nn.ReLU())))) is None
    once = torch.nn.ReLU()
    twice = structure(lambda: net(torch.nn.ReLU(), torch.nn.ReLU()))
    assert twice.find(run_of(observed(net(once, once)))) is None
    assert "instead of a module" in failure(check, run_of(observed(net().state_dict()))).got
    assert "instead of '1', a ReLU" in failure(check, run_of(observed(net(torch.nn.Identity())))).got
    fewer = failure(check, run_of(observed(net())))
    assert "1 layers instead of 2" in fewer.got
    assert fewer.expected.startswith("a module of 2 layers;")


def test_a_non_persistent_buffer_is_placed_but_not_compared() -> None:
    model = net()
    model.register_buffer("scratch", torch.zeros(3), persistent=False)

    assert structure(net).find(run_of(observed(model))) is None
    assert "scratch" in failure(placement({"0": "cpu", "scratch": "cuda:0"}), run_of(observed(model))).got


IMAGES = torch.rand(2, 3, 4, 5)
LAST = IMAGES.to(memory_format=torch.channels_last)
VOLUMES = torch.rand(2, 3, 4, 5, 6)


def same(x: torch.Tensor) -> torch.Tensor:
    return x


@pytest.mark.parametrize(
    ("result", "memory_format"),
    [
        (IMAGES, None),
        (LAST, None),
        (IMAGES, "contiguous"),
        (LAST, "channels_last"),
        (VOLUMES.to(memory_format=torch.channels_last_3d), "channels_last"),
        (torch.rand(3, 4), "channels_last"),
        (torch.rand(3, 4), "contiguous"),
        (torch.tensor(1.0), "contiguous"),
        (torch.empty(0, 3).t(), "contiguous"),
        (torch.rand(5, 1).t(), "contiguous"),
        (torch.rand(2, 1, 4, 5), "channels_last"),
        (torch.rand(2, 7, 1, 1), "channels_last"),
        (torch.rand(3, 8)[:1], "contiguous"),
    ],
)
def test_the_right_memory_format_passes(result: torch.Tensor, memory_format: Any) -> None:
    check = structure(same, memory_format=memory_format)
    assert check.find(run_of(observed(result), {"x": result})) is None


@pytest.mark.parametrize(
    ("result", "memory_format", "strides"),
    [
        (IMAGES, "channels_last", "strides (60, 20, 5, 1)"),
        (LAST, "contiguous", "strides (60, 1, 15, 3)"),
        (VOLUMES, "channels_last", "strides (360, 120, 30, 6, 1)"),
        (torch.rand(3, 4).t(), "contiguous", "strides (1, 4)"),
        (torch.rand(3, 4).t(), "channels_last", "strides (1, 4)"),
        (torch.rand(1, 4).expand(3, 4), "contiguous", "strides (0, 1)"),
        (torch.rand(3, 8)[:, ::2], "contiguous", "strides (8, 2)"),
    ],
)
def test_wrong_strides_are_shown(result: torch.Tensor, memory_format: Any, strides: str) -> None:
    check = structure(same, memory_format=memory_format)
    finding = failure(check, run_of(observed(result), {"x": result}))

    assert finding.got.startswith(strides)
    assert "in memory: strides" in finding.expected


def test_the_part_with_wrong_strides_and_the_remedy_are_named() -> None:
    check = structure(lambda: [LAST, IMAGES], memory_format="channels_last")
    finding = failure(check, run_of(observed([LAST, IMAGES])))

    assert finding.expected.startswith("result[1] of shape (2, 3, 4, 5)")
    assert "strides (60, 1, 15, 3)" in finding.expected
    assert ".to(memory_format=torch.channels_last)" in finding.advice
    volume = failure(structure(same, memory_format="channels_last"), run_of(observed(VOLUMES), {"x": VOLUMES}))
    assert "torch.channels_last_3d" in volume.advice
