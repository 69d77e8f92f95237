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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gpututor.classroom.executors import GradingFailed, grade_job
from gpututor.classroom.jobs import Job
from gpututor.classroom.work_queue import Claim, WorkQueue
from gpututor.errors import NotGradableHere, TutorError
from gpututor.grading.client import GradingService
from gpututor.hardware.inventory import Device, device_in_key
from gpututor.hardware.scenario import ACCELERATORS
from gpututor.processes import kill_tree, python_module

PROBE_TIMEOUT_S = 150.0
LONGEST_WAIT_S = 600.0
"""Seconds of waiting for a device, after which it is probed: the grading that uses it may hang."""
SHARE_BYTES = 4 << 30
"""Device memory for each grading, so that gradings do not run out of memory because of others."""
JUDGE_BYTES = 700 << 20
"""Host memory for a judge, its fork server and the worker."""
CLOSE_TIMEOUT_S = 5.0
_EXIT_TIMEOUT_S = 5.0
CORES_TO_START = 2
"""Cores that a judge's start keeps busy: the judge and its fork server import PyTorch at the same time."""
START_ALONE_S = 4.0
"""Most seconds for which the other judges wait while the first ones start."""
_PROBE_ERRORS = (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError, AttributeError)


def probe_devices(isolation: str) -> dict[str, str]:
    """Compute on each device in this isolation, in a new process; return errors by device, empty for working ones."""
    try:
        if isolation == "bubblewrap":
            return dict.fromkeys(working_in_bubblewrap(), "")
        return {str(name): str(error) for name, error in _run_probe("gpututor.worker.probe").items()}
    except (NotGradableHere, *_PROBE_ERRORS):
        return {}  # no device answered, so `RealDevices` treats the probed device as broken


def working_in_bubblewrap() -> frozenset[str]:
    """Return the devices that work in bubblewrap, which takes seconds. Raises `NotGradableHere` if none does.

    A check that ends without an answer, as when memory is short, is repeated once.
    """
    try:
        try:
            probe = _run_probe("gpututor.judge.isolation.probe")
        except ValueError:
            probe = _run_probe("gpututor.judge.isolation.probe")
        title, advice, devices = (probe[key] for key in ("title", "advice", "devices"))
    except subprocess.TimeoutExpired as error:
        title = f"This machine is too busy: bubblewrap could not be checked within {error.timeout:g} s."
        raise NotGradableHere(title, "Try again when other programs have ended.") from error
    except _PROBE_ERRORS as error:
        title = f"The check of bubblewrap ended without an answer, twice: {error}"
        advice = "The machine may lack memory. Close other programs, then run `gpututor doctor`."
        raise NotGradableHere(title, advice) from error
    if not devices:
        raise NotGradableHere(title, advice)
    return frozenset(map(str, devices))


def _run_probe(module: str) -> Any:
    """Return the JSON that the module prints last. Raises one of `_PROBE_ERRORS`, with its processes killed."""
    child = subprocess.Popen(
        python_module(module),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        output = child.communicate(timeout=PROBE_TIMEOUT_S)[0]
    except BaseException:
        kill_tree(child.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a driver may block it forever
            child.wait(_EXIT_TIMEOUT_S)
        raise
    finally:
        if child.stdout is not None:
            child.stdout.close()
    return json.loads(output.strip().rpartition(b"\n")[2])


class RealDevices:
    """The machine's real devices; thread-safe. `probe` returns errors by device, empty for working ones."""

    def __init__(self, devices: Sequence[Device], probe: Callable[[], dict[str, str]]) -> None:
        self._devices = tuple(devices)
        self._probe = probe
        self._released = threading.Condition()
        self._probing = threading.Lock()
        self._users: Counter[str] = Counter()
        self._probed_at: dict[str, float] = {}
        self.broken: dict[str, str] = {}
        """Errors of the devices that are no longer used."""

    @contextlib.contextmanager
    def acquire(self, job: Job) -> Iterator[str]:
        """Yield a device with space for the job; "" if it needs none. Raises `NotGradableHere` if no device is left."""
        if job.device.partition(":")[0] not in ACCELERATORS:
            yield ""
            return
        with self._released:
            while (name := self._choose(job)) is None:
                self._released.wait(1.0)
            self._users[name] += 1
        try:
            yield name
        finally:
            with self._released:
                self._users[name] -= 1
                self._released.notify_all()

    def check(self, name: str) -> None:
        """Probe the device after a grading failed on it, unless `name` is empty."""
        if name:
            with self._probing:
                self._check(name)

    def check_wait(self, name: str, waited_s: float, notify: Callable[[str], None]) -> None:
        """Probe a device that other gradings have blocked for long. Raises `GradingFailed` if it is broken."""
        if waited_s < LONGEST_WAIT_S:
            return
        with self._probing:  # a single probe for all threads that wait
            if time.monotonic() - self._probed_at.get(name, -LONGEST_WAIT_S) >= LONGEST_WAIT_S:
                notify(f"Another grading on this machine has used {name} for {waited_s / 60:.0f} minutes. Checking it.")
                self._check(name)
        if name in self.broken:
            raise GradingFailed(f"{name} is broken: {self.broken[name]}.")

    def _check(self, name: str) -> None:
        if name in self.broken:
            return
        error = self._probe().get(name, "it does not answer, or is gone")
        with self._released:
            self._probed_at[name] = time.monotonic()
            if error:
                self.broken[name] = error

    def _choose(self, job: Job) -> str | None:
        """Choose the least used device that fits; None if all are full."""
        fitting = [
            device
            for device in self._devices
            if device_in_key(device.kind, device.description) == job.key.device
            and (":" not in job.device or device.name == job.device)
        ]
        if job.gpus > 1:
            fitting = fitting[:1]  # a scenario takes the devices after it, too
        working = [device for device in fitting if device.name not in self.broken]
        if not working:
            errors = [f"{device.name}: {self.broken[device.name]}" for device in fitting if device.name in self.broken]
            raise NotGradableHere(
                f"No device works ({'; '.join(errors) or f'there is no {job.key.device}'}).",
                "Run `gpututor doctor`. Repair the device, then continue with --resume; or use --device virtual.",
            )
        device = min(working, key=lambda device: self._users[device.name])
        # Host memory bounds the users of a device of unknown memory.
        most = max(1, device.memory_bytes // SHARE_BYTES) if device.memory_bytes else 1 << 30
        return device.name if self._users[device.name] < most else None


@dataclass
class LocalExecutor:
    """An executor with `judges` judges side by side, which share `devices`. `notify` gets messages about these."""

    judges: int
    devices: RealDevices
    new_judge: Callable[[], GradingService]
    notify: Callable[[str], None] = lambda line: None

    def run(self, work: WorkQueue) -> None:
        threads = [_JudgeThread(work, self) for _ in range(min(self.judges, work.total))]
        early = max(1, _cores() // CORES_TO_START)
        try:
            for number, thread in enumerate(threads):
                if number == early:
                    work.wait_for_result(START_ALONE_S)
                thread.start()
            while not work.wait(1.0):  # so that Ctrl-C is noticed
                pass
        finally:
            work.stop()
            closers = [threading.Thread(target=thread.close, daemon=True) for thread in threads]
            for closer in closers:
                closer.start()
            for closer in closers:
                closer.join(2 * CLOSE_TIMEOUT_S)
        work.raise_error()


class _JudgeThread(threading.Thread):
    """A thread that claims jobs, and has a judge that grades them."""

    def __init__(self, work: WorkQueue, executor: LocalExecutor) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._executor = executor
        self._judge = executor.new_judge()

    def run(self) -> None:
        exercise = ""
        try:
            while (claim := self._work.claim(exercise)) is not None:
                exercise = claim.job.key.exercise
                self._grade(claim)
        except Exception as error:  # a bug of ours: reported, instead of a thread that silently ends
            title = f"Grading stopped: {type(error).__name__}: {error}"
            self._work.stop(TutorError(title, "Run `gpututor doctor`, then continue with --resume."))
            raise
        finally:
            self._judge.close()

    def close(self) -> None:
        """End a grading in progress, from another thread, after the work was stopped."""
        self._judge.close()
        if self.ident is not None:
            self.join(CLOSE_TIMEOUT_S)

    def _grade(self, claim: Claim) -> None:
        device, devices = "", self._executor.devices
        try:
            with devices.acquire(claim.job) as device:
                if self._work.was_stopped():
                    self._work.release(claim)
                    return
                on_wait = partial(devices.check_wait, device, notify=self._executor.notify)
                outcome = grade_job(self._judge, claim.job, device, on_wait)
        except GradingFailed as error:
            if self._work.was_stopped():
                self._work.release(claim)
                return
            self._judge.close()
            self._judge = self._executor.new_judge()
            devices.check(device)
            self._work.fail(claim, str(error))
        except NotGradableHere as error:  # no device is left for this job
            self._work.abandon(claim, str(error))
        except TutorError as error:  # nothing more can be graded
            self._work.release(claim)
            self._work.stop(error)
        else:
            self._work.complete(claim, outcome)


def default_judges() -> int:
    """Return the number of judges: one for each core of this process, as far as memory suffices."""
    return max(1, min(_cores(), _free_bytes() // JUDGE_BYTES))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 2


def _free_bytes() -> int:
    """Return the free memory of this machine or control group; a large number if unknown."""
    free = [1 << 60]
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free.append(1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")))
    with contextlib.suppress(OSError, ValueError, StopIteration):
        group = Path("/sys/fs/cgroup")
        used = int((group / "memory.current").read_text())
        of_files = next(line for line in (group / "memory.stat").read_text().splitlines() if line.startswith("file "))
        free.append(int((group / "memory.max").read_text()) - used + int(of_files.split()[1]))
    return max(0, min(free))
