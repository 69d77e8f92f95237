"""The local executor: judges in threads that share the machine's real devices."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from gpututor.classroom.executors import GradingFailed, Judge, grade_job, judge_in
from gpututor.classroom.jobs import Job
from gpututor.classroom.work_queue import Attempt, WorkQueue
from gpututor.errors import NotGradableHere, TutorError
from gpututor.grading.client import IsolationName
from gpututor.hardware.inventory import Device, device_in_key
from gpututor.hardware.scenario import ACCELERATORS
from gpututor.processes import kill_tree, python_module

PROBE_TIMEOUT_S = 150.0
AWAITED_S = 600.0
"""Who waits for a device for so long asks whether it still computes: the one who has it may hang there."""
SHARE_BYTES = 4 << 30
"""Of a device's memory, for each grading that shares it: one must not run out of memory for the sake of others."""
_ENDS_WITHIN_S = 5.0

Probe = Callable[[], dict[str, str]]
"""Computes on each device, in a fresh process: what went wrong there, by its name; empty where nothing did."""


class RealDevices:
    """Any thread may call anything."""

    def __init__(self, devices: Sequence[Device], probe: Probe) -> None:
        self._devices = tuple(devices)
        self._probe = probe
        self._freed = threading.Condition()
        self._looking = threading.Lock()
        self._users: Counter[str] = Counter()
        self._looked_at: dict[str, float] = {}
        self.set_aside: dict[str, str] = {}
        """What is wrong with each that is not used any more."""

    @contextlib.contextmanager
    def one_for(self, job: Job) -> Iterator[str]:
        """The device for a job, "" for one that needs no real device; waits until one has room.

        Raises `NotGradableHere` where none is left.
        """
        if job.device.partition(":")[0] not in ACCELERATORS:
            yield ""
            return
        with self._freed:
            while (name := self._choose(job)) is None:
                self._freed.wait(1.0)
            self._users[name] += 1
        try:
            yield name
        finally:
            with self._freed:
                self._users[name] -= 1
                self._freed.notify_all()

    def look_at(self, name: str) -> None:
        """After a grading broke there: set the device aside if it does not compute. "" is no device."""
        if not name:
            return
        with self._looking:
            self._look_at(name)

    def awaited(self, name: str, for_s: float, tell: Callable[[str], None]) -> None:
        """Others have had a device for themselves for so long. Raises `Broke` where it does not compute any more."""
        if for_s < AWAITED_S:
            return
        with self._looking:  # one probe tells for all who wait
            if time.monotonic() - self._looked_at.get(name, -AWAITED_S) >= AWAITED_S:
                tell(f"{name} is waited for: another grading on this machine has had it for {for_s / 60:.0f} minutes.")
                self._look_at(name)
        if name in self.set_aside:
            raise GradingFailed(f"{name} was waited for in vain: {self.set_aside[name]}.")

    def _look_at(self, name: str) -> None:
        if name in self.set_aside:
            return
        trouble = self._probe().get(name, "it does not answer, or is not there any more")
        with self._freed:
            self._looked_at[name] = time.monotonic()
            if trouble:
                self.set_aside[name] = trouble

    def _choose(self, job: Job) -> str | None:
        """None where all that fit have as many users as they have room for."""
        fitting = [
            device
            for device in self._devices
            if device_in_key(device.kind, device.description) == job.key.device
            and (":" not in job.device or device.name == job.device)
        ]
        if job.gpus > 1:
            fitting = fitting[:1]  # a scenario takes those that follow: from the first on there are the most
        left = [device for device in fitting if device.name not in self.set_aside]
        if not left:
            names = [device.name for device in fitting]
            words = "; ".join(f"{name}: {self.set_aside[name]}" for name in names if name in self.set_aside)
            raise NotGradableHere(
                f"No device is left that computes ({words or f'there is no {job.key.device}'}).",
                "`gpututor doctor` tells more. When it works again, go on with --resume; --device virtual needs none.",
            )
        least = min(left, key=lambda device: self._users[device.name])
        return least.name if self._users[least.name] < _room(least) else None


def _room(device: Device) -> int:
    """How many may share it. Where nobody knows its memory, the machine's own bounds them."""
    return max(1, device.memory_bytes // SHARE_BYTES) if device.memory_bytes else 1 << 30


def probe_devices(isolation: str) -> dict[str, str]:
    """A `Probe`: what a worker in this isolation can compute on."""
    module = "gpututor.judge.isolation.probe" if isolation == "bubblewrap" else "gpututor.worker.probe"
    try:
        said = json.loads(_output(python_module(module)).strip().rpartition(b"\n")[2])
        if isolation != "bubblewrap":
            return {str(name): str(trouble) for name, trouble in said.items()}
        return dict.fromkeys(map(str, said["devices"]), "")
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _output(command: list[str]) -> bytes:
    """Raises `OSError` or `TimeoutExpired`; what can be killed of it is gone then."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return child.communicate(timeout=PROBE_TIMEOUT_S)[0]
    except BaseException:
        kill_tree(child.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a driver may hold it for ever
            child.wait(_ENDS_WITHIN_S)
        raise
    finally:
        if child.stdout is not None:
            child.stdout.close()


JUDGE_BYTES = 700 << 20
"""Of a judge, its fork server and the worker: what each of them has for itself."""
STOPS_WITHIN_S = 5.0
"""How long judges that were closed in the middle of their work are waited for."""


class LocalExecutor:
    """`judges`: how many grade side by side. `devices`: the real ones that they share. `tell` hears of these."""

    def __init__(
        self,
        judges: int,
        devices: RealDevices,
        new_judge: Callable[[], Judge],
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._judges = judges
        self._devices = devices
        self._new_judge = new_judge
        self._tell = tell

    @classmethod
    def of(
        cls, isolation: IsolationName, judges: int, devices: RealDevices, tell: Callable[[str], None]
    ) -> LocalExecutor:
        """With real judges."""
        return cls(judges, devices, partial(judge_in, isolation), tell)

    def run(self, work: WorkQueue) -> None:
        """See `Executor`."""
        seats = [_Seat(work, self._devices, self._new_judge, self._tell) for _ in range(min(self._judges, work.total))]
        try:
            for seat in seats:
                seat.start()
            while not work.wait(1.0):  # so that Ctrl-C is heard
                pass
        finally:
            work.stop()
            _at_once([seat.close for seat in seats])
        work.raise_error()


class _Seat(threading.Thread):
    """Takes attempts, and has a judge that grades them."""

    def __init__(
        self, work: WorkQueue, devices: RealDevices, new_judge: Callable[[], Judge], tell: Callable[[str], None]
    ) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._devices = devices
        self._new_judge = new_judge
        self._tell = tell
        self._judge = new_judge()
        self._exercise = ""

    def run(self) -> None:
        try:
            while (attempt := self._work.take(self._exercise)) is not None:
                self._exercise = attempt.job.key.exercise
                self._try(attempt)
        except Exception as error:  # a fault of ours: told, instead of a thread that is silently gone
            self._work.stop(TutorError(f"Grading stopped: {type(error).__name__}: {error}"))
            raise
        finally:
            self._judge.close()

    def close(self) -> None:
        """From another thread, when the work was stopped: end the judge in the middle of what it does."""
        self._judge.close()
        self.join(STOPS_WITHIN_S)

    def _try(self, attempt: Attempt) -> None:
        device = ""
        try:
            with self._devices.one_for(attempt.job) as device:
                if self._work.was_stopped():
                    self._work.give_back(attempt)
                    return
                awaited = partial(self._devices.awaited, device, tell=self._tell)
                outcome = grade_job(self._judge, attempt.job, device, awaited)
        except GradingFailed as broke:
            if self._work.was_stopped():
                self._work.give_back(attempt)
                return
            self._judge.close()
            self._judge = self._new_judge()
            self._devices.look_at(device)
            self._work.broke(attempt, str(broke))
        except NotGradableHere as error:  # no device is left for it; what needs none goes on
            self._work.give_up(attempt, str(error))
        except TutorError as error:  # nothing more can be graded
            self._work.give_back(attempt)
            self._work.stop(error)
        else:
            self._work.done(attempt, outcome)


def _at_once(deeds: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=deed, daemon=True) for deed in deeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * STOPS_WITHIN_S)


def default_judges() -> int:
    """One for each core that this process may use, as far as there is memory for them."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 2
    return max(1, min(cores, _free_bytes() // JUDGE_BYTES))


def _free_bytes() -> int:
    """What this machine, or the group that it put this process into, has left; much where nothing tells."""
    found = [1 << 60]
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found.append(1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")))
    with contextlib.suppress(OSError, ValueError, StopIteration):
        group = Path("/sys/fs/cgroup")
        used = int((group / "memory.current").read_text())
        of_files = next(line for line in (group / "memory.stat").read_text().splitlines() if line.startswith("file "))
        found.append(int((group / "memory.max").read_text()) - used + int(of_files.split()[1]))
    return max(0, min(found))
