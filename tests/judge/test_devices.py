"""Devices of a grading: locks that timed runs hold alone, and evidence of where tensors lived."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpututor.checks.model import Call, MemoryUse, Run
from gpututor.hardware.nvidia_driver import driver_version
from gpututor.hardware.scenario import Scenario
from gpututor.judge import devices
from gpututor.judge.devices import DeviceLocks, locks_for, to_machine
from gpututor.judge.grader import placement_of
from gpututor.protocol.messages import MachineSpec
from gpututor.trace.columns import Trace
from tests.support.nvidia_drivers import SimulatedDriver, install_driver
from tests.support.threads import started

SOON_S = 10.0


def locks(folder: Path, *names: str, on_wait: devices.OnWait = lambda device: None) -> DeviceLocks:
    """Return locks as another process has them: a lock belongs to the opened file, not to the process."""
    return DeviceLocks({name: name.replace(":", "-") for name in names}, on_wait, folder)


@contextlib.contextmanager
def entered_in_thread(
    context: contextlib.AbstractContextManager[None],
) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Enter `context` in a thread; yield an event for the entrance, and one that ends the block."""
    is_in, out = threading.Event(), threading.Event()

    def enter() -> None:
        with context:
            is_in.set()
            out.wait(SOON_S)

    thread = started(enter)
    try:
        yield is_in, out
    finally:
        out.set()
        thread.join(SOON_S)
        assert not thread.is_alive()


@contextlib.contextmanager
def alone(devices_of: DeviceLocks) -> Iterator[None]:
    with devices_of.shared(), devices_of.alone():
        yield


def test_an_exclusive_lock_waits_for_the_shared_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_FIRST_REPORT_S", 0.0)
    waits = threading.Event()
    with contextlib.ExitStack() as sharing:
        for _ in range(2):
            sharing.enter_context(locks(tmp_path, "cuda:0").shared())
        with entered_in_thread(alone(locks(tmp_path, "cuda:0", on_wait=lambda device: waits.set()))) as (is_alone, _):
            assert waits.wait(SOON_S)
            assert not is_alone.is_set()
            sharing.close()
            assert is_alone.wait(SOON_S)


def test_an_exclusive_lock_keeps_others_out_and_is_not_starved(tmp_path: Path) -> None:
    with entered_in_thread(alone(locks(tmp_path, "cuda:0"))) as (is_alone, out):
        assert is_alone.wait(SOON_S)
        with entered_in_thread(locks(tmp_path, "cuda:0").shared()) as (shares, _):
            assert not shares.wait(0.1)
            with locks(tmp_path, "cuda:1").shared():
                pass
            out.set()
            assert shares.wait(SOON_S)
    with contextlib.ExitStack() as sharing, contextlib.ExitStack() as others:
        sharing.enter_context(locks(tmp_path, "cuda:0").shared())
        is_alone, out = others.enter_context(entered_in_thread(alone(locks(tmp_path, "cuda:0"))))
        assert not is_alone.wait(0.1)
        shares, _ = others.enter_context(entered_in_thread(locks(tmp_path, "cuda:0").shared()))
        assert not shares.wait(0.1)
        sharing.close()
        assert is_alone.wait(SOON_S)
        assert not shares.is_set()
        out.set()
        assert shares.wait(SOON_S)


def test_locks_on_several_devices_do_not_deadlock(tmp_path: Path) -> None:
    done = [0, 0]

    def take(number: int, *names: str) -> None:
        for _ in range(20):
            with alone(locks(tmp_path, *names)):
                done[number] += 1

    threads = [started(take, 0, "cuda:0", "cuda:1"), started(take, 1, "cuda:1", "cuda:0")]
    for thread in threads:
        thread.join(SOON_S)
    assert done == [20, 20]


def test_locks_are_named_by_uuid_if_needed_and_possible(tmp_path: Path) -> None:
    machines = [
        MachineSpec(Scenario("one GPU", 1, ("cuda",), "T4"), "virtual", 0),
        MachineSpec(Scenario("", 0, (), ""), "cpu", 0),
    ]
    no_locks = locks_for(machines, (), lambda device: None, tmp_path)
    with no_locks.shared(), no_locks.alone():
        assert list(tmp_path.iterdir()) == []
    available = [{"name": "cuda:0", "uuid": "GPU-a/b"}, {"name": "cuda:1", "uuid": ""}]
    with locks_for(
        [MachineSpec(Scenario("two", 2, ("cuda",), ""), "cuda", 0)], available, lambda device: None, tmp_path
    ).shared():
        assert {path.name for path in tmp_path.glob("*.lock")} == {"cuda-GPU-a-b.lock", "cuda-1.lock"}
    (tmp_path / "in_the_way").write_text("")
    with alone(locks(tmp_path / "in_the_way" / "folder", "cuda:0")), alone(locks(tmp_path / "in_the_way", "cuda:0")):
        pass


def test_a_lock_ends_with_its_process_despite_living_children(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys; from pathlib import Path; from gpututor.judge.devices import DeviceLocks\n"
        f"locks = DeviceLocks({{'cuda:0': 'cuda-0'}}, print, Path({str(tmp_path)!r}))\n"
        "with locks.shared(), locks.alone():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], stdin=0)\n"
        "    print(child.pid, flush=True); child.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        with entered_in_thread(locks(tmp_path, "cuda:0").shared()) as (shares, _):
            assert not shares.wait(0.05)
            holder.kill()
            assert shares.wait(SOON_S)
            os.kill(child, 0)  # the child still runs


VIRTUAL = MachineSpec(Scenario("one GPU", 1, ("cuda",), "T4"), "virtual", 0)
WORKER = 4242


def run_on(spec: MachineSpec, held: int = 1000) -> Run:
    call = Call({}, {}, None, Trace(), memory={"cuda:0": MemoryUse(0, held, held)})
    return Run(to_machine(VIRTUAL, []), (call,), "", "work")


def test_without_a_driver_a_placement_is_traced_self_reported_or_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert placement_of(run_on(VIRTUAL), VIRTUAL, WORKER) == "traced"
    assert placement_of(replace(run_on(VIRTUAL), calls=()), VIRTUAL, WORKER) == ""
    for kind in ("mps", "xpu", "cpu"):
        real = replace(VIRTUAL, kind=kind)
        assert placement_of(run_on(real), real, WORKER) == "self-reported"
    install_driver(monkeypatch, None)
    real = replace(VIRTUAL, kind="cuda")
    assert placement_of(run_on(real), real, WORKER) == "self-reported"
    assert driver_version() == ""


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        ([[(1, 5000), (WORKER, 600)], [(WORKER, 600)]], "corroborated"),
        ([[(WORKER, 999)]], "self-reported"),
        ([[(1, 5000)]], "self-reported"),
        ([[(WORKER, (1 << 64) - 1)]], "self-reported"),
        ([[(number, 1) for number in range(100)] + [(WORKER, 2000)]], "corroborated"),
        ([], "self-reported"),
    ],
)
def test_the_driver_corroborates_the_memory_of_the_worker(
    monkeypatch: pytest.MonkeyPatch, processes: list[list[tuple[int, int]]], expected: str
) -> None:
    install_driver(monkeypatch, SimulatedDriver(processes=processes))
    real = replace(VIRTUAL, kind="cuda")
    assert placement_of(run_on(real), real, WORKER) == expected
    assert driver_version() == "550.54.15"
