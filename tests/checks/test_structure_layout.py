"""How tensors lie in memory is looked at where an author asks, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpututor.checks import structure
from gpututor.errors import CourseError
from tests.support.check_runs import found, observed, run_of

IMAGES = torch.rand(2, 3, 4, 5)
LAST = IMAGES.to(memory_format=torch.channels_last)
VOLUMES = torch.rand(2, 3, 4, 5, 6)


def same(x: torch.Tensor) -> torch.Tensor:
    return x


def look(result: torch.Tensor, memory_format: Any) -> Any:
    return structure(same, memory_format=memory_format).find(run_of(observed(result), {"x": result}))


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
def test_what_lies_as_it_should_passes(result: torch.Tensor, memory_format: Any) -> None:
    assert look(result, memory_format) is None


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
def test_other_strides_are_shown(result: torch.Tensor, memory_format: Any, strides: str) -> None:
    check = structure(same, memory_format=memory_format)
    finding = found(check, run_of(observed(result), {"x": result}))

    assert finding.got.startswith(strides)
    assert "in memory: strides" in finding.expected


def test_the_part_and_the_way_out_are_named() -> None:
    finding = found(structure(lambda: [LAST, IMAGES], memory_format="channels_last"), run_of(observed([LAST, IMAGES])))

    assert finding.expected.startswith(
        "result[1] of shape (2, 3, 4, 5) channels_last in memory: strides (60, 1, 15, 3)"
    )
    assert ".to(memory_format=torch.channels_last)" in finding.advice
    volume = found(structure(same, memory_format="channels_last"), run_of(observed(VOLUMES), {"x": VOLUMES}))
    assert "torch.channels_last_3d" in volume.advice


def test_other_formats_are_the_authors_fault() -> None:
    with pytest.raises(CourseError, match="memory_format"):
        structure(same, memory_format="rows")  # type: ignore[arg-type]
