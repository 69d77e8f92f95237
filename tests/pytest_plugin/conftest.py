"""Sessions of pytest inside a test leave no virtual GPU on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpututor.devices.virtual import machine, virtual_gpu


@pytest.fixture(autouse=True)
def _switched_off_afterwards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with virtual_gpu():  # imports all of it, which pytester would forget again
        pass
    yield
    assert not machine.is_on()
