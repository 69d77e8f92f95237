"""The guard between two calls: submission code that runs then is noticed."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from gpututor.hardware.scenario import Scenario
from gpututor.protocol.messages import MachineSpec
from gpututor.worker.guard import MODULE_NAME, CallGuard
from gpututor.worker.machine import enter_machine
from gpututor.worker.submission import call, load
from tests.support.threads import started

SPEC = MachineSpec(Scenario("one GPU", 1, ("cuda",), "T4"), "virtual", 0)


def _nothing(*_: Any) -> None:
    return None


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[CallGuard]:
    with enter_machine(SPEC, str(tmp_path / "solution.py")) as machine:
        machine.recorder.enabled = False
        yield CallGuard(machine.recorder, tmp_path / "solution.py")
    gc.enable()


@pytest.mark.parametrize(
    ("leave", "name"),
    [
        (lambda: sys.setprofile(_nothing), "sys.setprofile"),
        (lambda: sys.settrace(_nothing), "sys.settrace"),
        (lambda: threading.setprofile(_nothing), "threading.setprofile"),
        (lambda: threading.settrace(_nothing), "threading.settrace"),
        (lambda: gc.callbacks.append(_nothing), "gc.callbacks"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hooks_left_behind_are_removed_and_named(guard: CallGuard, leave: Any, name: str) -> None:
    kept = sys.gettrace(), threading.gettrace()  # coverage may be measured
    try:
        leave()
        guard.suspend()
        assert sys.getprofile() is None
        assert sys.gettrace() is None
        assert _nothing not in (*gc.callbacks, threading.getprofile(), threading.gettrace())
    finally:
        sys.settrace(kept[0])
        if kept[1] is not None:
            threading.settrace(kept[1])
    assert name in guard.hooks


def test_timers_and_signal_handlers_are_active_only_during_calls(guard: CallGuard) -> None:
    before = signal.getsignal(signal.SIGALRM)
    guard.resume()
    signal.signal(signal.SIGALRM, _nothing)
    signal.setitimer(signal.ITIMER_REAL, 1000)
    guard.suspend()
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)) == (before, (0, 0))
    assert {"signal.signal", "signal.setitimer"} <= guard.hooks.keys()
    guard.resume()
    assert signal.getsignal(signal.SIGALRM) is _nothing
    guard.suspend()
    assert signal.getsignal(signal.SIGALRM) == before


def test_garbage_collection_pauses_between_calls(guard: CallGuard) -> None:
    guard.resume()
    assert gc.isenabled()
    guard.suspend()
    assert not gc.isenabled()
    guard.resume()
    gc.disable()
    guard.suspend()
    guard.resume()
    assert not gc.isenabled()


def test_device_work_between_calls_is_noticed(
    guard: CallGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "solution.py"
    path.write_text("import torch\n\n\ndef work():\n    torch.ones(3, device='cuda').mul_(2)\n")
    monkeypatch.setitem(sys.modules, MODULE_NAME, ModuleType(MODULE_NAME))
    work = load(path, "work")
    work()
    assert not guard.lines
    guard.suspend()
    torch.ones(3, device="cuda").mul_(2)  # as an exercise's own code makes what is given
    assert not guard.lines
    work()
    assert [*guard.lines] == [5]
    exec("torch.ones(3, device='cuda').mul_(2)", sys.modules[MODULE_NAME].__dict__)
    assert [*guard.lines] == [5, 0]
    guard.resume()
    call(work, {}, path, guard)
    assert [*guard.lines] == [5, 0]


def test_device_work_of_another_thread_is_noticed(guard: CallGuard) -> None:
    table = torch.ones(3)
    guard.suspend()
    started(table.to, "cuda").join()
    assert [*guard.lines] == [0]


def test_a_replaced_stdout_is_flushed_during_the_call(
    guard: CallGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[bool] = []

    class Out:
        def write(self, text: str) -> int:
            return len(text)

        def flush(self) -> None:
            flushed.append(gc.isenabled())

    monkeypatch.setattr(sys, "stdout", Out())
    call(lambda: None, {}, tmp_path / "solution.py", guard)
    assert flushed == [True]
    assert not gc.isenabled()
