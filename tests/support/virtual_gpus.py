"""Helpers for tests of the virtual GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.trace.events import Event, Kind


def gradient(leaf: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a tensor that must have one."""
    assert leaf.grad is not None
    return leaf.grad


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors of a layer's result."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in tensors_in(item)] if isinstance(value, tuple | list) else []


def loss_of(result: Any) -> torch.Tensor:
    """Return the sum of the squares of all floating-point tensors of a layer's result."""
    return torch.stack([part.float().square().sum() for part in tensors_in(result) if part.is_floating_point()]).sum()


def names_of(events: Iterable[Event], kind: Kind) -> list[str]:
    """Return the names of the events of one kind."""
    return [event.name for event in events if event.kind is kind]


def traced(
    program: Callable[[], object], model: str = "A100", *, file: str = "", gpus: int = 1, values: bool = True
) -> list[Event]:
    """Run `program` on virtual GPUs until all its work is done; return its events, with the lines of `file`."""
    recorder = Recorder([file])
    with virtual_gpu(gpus, model, recorder=recorder, values=values):
        program()
        torch.cuda.synchronize()
    return list(recorder.complete())


def captured(work: Callable[[], Any], **options: Any) -> tuple[Any, Any]:
    """Return a CUDA graph of `work`, and the result of the capture."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        out = work()
    return graph, out


def run_python(
    *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python in a child process; return its exit code and output."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
    )


def printed(*arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Run Python in a child process that must end with exit code 0; return its output."""
    ended = run_python(*arguments, cwd=cwd, environment=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
