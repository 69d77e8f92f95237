"""Fixtures for the virtual GPU's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def two_gpus() -> Iterator[VirtualMachine]:
    """A machine with two T4 and no recording."""
    with virtual_gpu(2) as machine:
        yield machine


@pytest.fixture
def machine() -> Iterator[VirtualMachine]:
    """A machine without GPUs: only the host's clock is virtual."""
    with virtual_gpu(0) as machine:
        yield machine


@pytest.fixture
def recorder(request: pytest.FixtureRequest) -> Iterator[Recorder]:
    """Records what the test's own file does on a machine with two T4."""
    recorder = Recorder([str(request.path)])
    with virtual_gpu(2, recorder=recorder):
        yield recorder
