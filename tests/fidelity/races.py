"""Races between two streams, each with a near twin that waits. `python -m tests.fidelity.races NAME` runs one.

On a real GPU `TORCH_CUDA_SANITIZER=1` finds them (docs/source/cuda._sanitizer.rst); the virtual GPU does by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

Program = Callable[[Any], torch.Tensor]
RACES: dict[str, tuple[Program, str]] = {}
"""Programs by name, with the hazard that each shows, or "". A program gets a second stream, and returns the memory that
both streams use, so that it lives until they are done."""


def shows(hazard: str) -> Callable[[Program], Program]:
    """Put a program into the table."""

    def declare(run: Program) -> Program:
        RACES[run.__name__] = run, hazard
        return run

    return declare


def row() -> torch.Tensor:
    return torch.ones(1 << 16, device="cuda")


@shows("read after write")
def the_sanitizers_own_example(side: Any) -> torch.Tensor:
    """Write and read as in docs/source/cuda._sanitizer.rst, with the streams the other way round."""
    x = row()
    with torch.cuda.stream(side):
        torch.mul(x, 5)
    return x


@shows("")
def the_sanitizers_own_example_mended(side: Any) -> torch.Tensor:
    x = row()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.mul(x, 5)
    return x


@shows("write after read")
def a_buffer_is_filled_while_it_is_read(side: Any) -> torch.Tensor:
    x = row()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.sum()
    x.zero_()
    return x


@shows("")
def a_buffer_is_filled_after_an_event(side: Any) -> torch.Tensor:
    x = row()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.sum()
        done = side.record_event()
    done.wait()
    x.zero_()
    return x


@shows("write after write")
def two_streams_fill_one_buffer(side: Any) -> torch.Tensor:
    x = row()
    side.wait_stream(torch.cuda.current_stream())
    x.zero_()
    with torch.cuda.stream(side):
        x.fill_(2)
    return x


@shows("")
def two_streams_fill_one_buffer_after_a_synchronize(side: Any) -> torch.Tensor:
    x = row()
    x.zero_()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x.fill_(2)
    return x


@shows("")
def two_streams_read_one_buffer(side: Any) -> torch.Tensor:
    x = row()
    side.wait_stream(torch.cuda.current_stream())
    x.sum()
    with torch.cuda.stream(side):
        x.sum()
    return x


if __name__ == "__main__":
    kept = RACES[sys.argv[1]][0](torch.cuda.Stream())
    torch.cuda.synchronize()
