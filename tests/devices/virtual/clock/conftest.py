"""A machine for tests of the host's clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpututor.devices.virtual import VirtualMachine, virtual_gpu


@pytest.fixture
def machine() -> Iterator[VirtualMachine]:
    with virtual_gpu(0) as machine:
        yield machine
