"""Who times has a device alone; the others share it, and nobody waits for ever."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.hardware.scenario import Scenario
from gpututor.judge import devices as device_locks
from gpututor.judge.devices import DeviceLocks, locks_for
from gpututor.protocol.messages import MachineSpec

SOON_S = 10.0


def locks(folder: Path, *devices: str, tell: device_locks.OnWait = lambda device: None) -> DeviceLocks:
    """As another process has them: a lock belongs to the file that was opened, not to the process."""
    return DeviceLocks({device: device.replace(":", "-") for device in devices}, tell, folder)


@contextlib.contextmanager
def beside(deed: contextlib.AbstractContextManager[None]) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Enter `deed` in a thread: whether it is in, and what lets it out."""
    is_in, out = threading.Event(), threading.Event()

    def enter() -> None:
        with deed:
            is_in.set()
            out.wait(SOON_S)

    thread = threading.Thread(target=enter)
    thread.start()
    try:
        yield is_in, out
    finally:
        out.set()
        thread.join(SOON_S)
        assert not thread.is_alive()


@contextlib.contextmanager
def alone(one: DeviceLocks) -> Iterator[None]:
    with one.shared(), one.alone():
        yield


def test_many_share_a_device(tmp_path: Path) -> None:
    with locks(tmp_path, "cuda:0").shared(), locks(tmp_path, "cuda:0").shared():
        pass


def test_who_times_waits_until_nobody_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_locks, "_FIRST_REPORT_S", 0.0)
    told = threading.Event()
    with contextlib.ExitStack() as sharing:
        sharing.enter_context(locks(tmp_path, "cuda:0").shared())
        with beside(alone(locks(tmp_path, "cuda:0", tell=lambda device: told.set()))) as (is_alone, _):
            assert told.wait(SOON_S)
            assert not is_alone.is_set()
            sharing.close()
            assert is_alone.wait(SOON_S)


def test_a_timed_one_is_alone(tmp_path: Path) -> None:
    with beside(alone(locks(tmp_path, "cuda:0"))) as (is_alone, out):
        assert is_alone.wait(SOON_S)
        with beside(locks(tmp_path, "cuda:0").shared()) as (shares, _):
            assert not shares.wait(0.1)
            with locks(tmp_path, "cuda:1").shared():
                pass  # another device is another matter
            out.set()
            assert shares.wait(SOON_S)


def test_who_wants_it_alone_comes_before_those_who_come_later(tmp_path: Path) -> None:
    with contextlib.ExitStack() as sharing, contextlib.ExitStack() as others:
        sharing.enter_context(locks(tmp_path, "cuda:0").shared())
        is_alone, out = others.enter_context(beside(alone(locks(tmp_path, "cuda:0"))))
        assert not is_alone.wait(0.1)
        shares, _ = others.enter_context(beside(locks(tmp_path, "cuda:0").shared()))
        assert not shares.wait(0.1)
        sharing.close()
        assert is_alone.wait(SOON_S)
        assert not shares.is_set()
        out.set()
        assert shares.wait(SOON_S)


def test_two_who_want_the_same_devices_never_wait_for_each_other(tmp_path: Path) -> None:
    done = [0, 0]

    def take(number: int, *devices: str) -> None:
        for _ in range(20):
            with alone(locks(tmp_path, *devices)):
                done[number] += 1

    threads = [
        threading.Thread(target=take, args=(0, "cuda:0", "cuda:1"), daemon=True),
        threading.Thread(target=take, args=(1, "cuda:1", "cuda:0"), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON_S)
    assert done == [20, 20]


def test_the_virtual_gpu_and_the_cpu_need_no_lock(tmp_path: Path) -> None:
    machines = [
        MachineSpec(Scenario("one GPU", 1, ("cuda",), "T4"), "virtual", 0),
        MachineSpec(Scenario("", 0, (), ""), "cpu", 0),
    ]
    of_none = locks_for(machines, (), lambda device: None, tmp_path)
    with of_none.shared(), of_none.alone():
        assert list(tmp_path.iterdir()) == []


def test_a_device_is_known_by_what_its_maker_calls_it(tmp_path: Path) -> None:
    available = [{"name": "cuda:0", "uuid": "GPU-a/b"}, {"name": "cuda:1", "uuid": ""}]
    with locks_for(
        [MachineSpec(Scenario("two", 2, ("cuda",), ""), "cuda", 0)], available, lambda device: None, tmp_path
    ).shared():
        assert {path.name for path in tmp_path.glob("*.lock")} == {"cuda-GPU-a-b.lock", "cuda-1.lock"}


def test_where_nothing_can_be_locked_gradings_go_on(tmp_path: Path) -> None:
    (tmp_path / "in_the_way").write_text("")
    with alone(locks(tmp_path / "in_the_way" / "folder", "cuda:0")), alone(locks(tmp_path / "in_the_way", "cuda:0")):
        pass


def test_a_lock_goes_with_its_process_whatever_that_started(tmp_path: Path) -> None:
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
        with beside(locks(tmp_path, "cuda:0").shared()) as (shares, _):
            assert not shares.wait(0.05)
            holder.kill()
            assert shares.wait(SOON_S)
            os.kill(child, 0)  # it lives
