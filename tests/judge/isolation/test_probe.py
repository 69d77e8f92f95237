"""Devices that can compute in bubblewrap."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gpututor.devices.probe import describe_devices
from gpututor.judge.isolation import probe as module
from gpututor.judge.isolation.probe import Probe, probe, working
from gpututor.worker.probe import reason_without_gpus

CPU: dict[str, object] = {"name": "cpu", "kind": "cpu", "description": "a CPU", "memory_bytes": None}
GPUS: list[dict[str, object]] = [{**CPU, "name": f"cuda:{number}", "kind": "cuda"} for number in range(2)]


@pytest.fixture(autouse=True)
def forget_the_last_probe() -> None:
    module._working.cache_clear()


def test_only_accelerators_are_probed_and_only_if_they_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "probe", lambda: Probe(False, "cuda:1: broken", "", ("cpu", "cuda:0")))
    assert working([CPU, *GPUS], "bubblewrap") == (CPU, GPUS[0])
    assert working([CPU, *GPUS], "process") == (CPU, *GPUS)
    monkeypatch.setattr(module, "probe", lambda: pytest.fail("asked"))
    assert working([CPU], "bubblewrap") == (CPU,)


@pytest.mark.isolation
def test_a_product_is_computed_in_bubblewrap() -> None:
    result = probe()
    assert result.works, result.title
    assert "cpu" in result.devices


def test_broken_drivers_have_no_devices_but_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> bool:
        raise RuntimeError("the driver is gone")

    monkeypatch.setattr(torch.xpu, "is_available", fails)
    assert next(iter(describe_devices()))["name"] == "cpu"

    def breaks(_: int) -> None:
        raise RuntimeError("CUDA unknown error\nmore")

    monkeypatch.setattr(torch.version, "cuda", None)
    assert reason_without_gpus() == {}
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_properties", breaks)
    monkeypatch.setattr(Path, "glob", lambda *_: [])
    assert reason_without_gpus() == {}
    monkeypatch.setattr(Path, "glob", lambda *_: [Path("/dev/nvidia0")])
    assert reason_without_gpus() == {"cuda": "CUDA unknown error"}
