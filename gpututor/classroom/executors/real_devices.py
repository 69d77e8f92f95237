"""The real devices of this machine, shared among judges; one that is sick is set aside."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from gpututor.classroom.batch import Job
from gpututor.errors import NotGradableHere
from gpututor.grading.choosing import ACCELERATORS, device_in_key
from gpututor.grading.inventory import Device
from gpututor.processes import kill_tree, python_module

PROBE_TIMEOUT_S = 150.0

Probe = Callable[[], dict[str, str]]
"""Computes on each device, in a fresh process: what went wrong there, by its name; empty where nothing did."""


class RealDevices:
    """Any thread may call anything."""

    def __init__(self, devices: Sequence[Device], probe: Probe) -> None:
        self._devices = tuple(devices)
        self._probe = probe
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._users: Counter[str] = Counter()
        self.set_aside: dict[str, str] = {}
        """What is wrong with each that is not used any more."""

    @contextlib.contextmanager
    def one_for(self, job: Job) -> Iterator[str]:
        """The device for a job, "" for one that needs no real device. Raises `NotGradableHere` where none is left."""
        if job.device.partition(":")[0] not in ACCELERATORS:
            yield ""
            return
        with self._lock:
            name = self._choose(job)
            self._users[name] += 1
        try:
            yield name
        finally:
            with self._lock:
                self._users[name] -= 1

    def look_at(self, name: str) -> None:
        """After a grading broke there: set the device aside if it does not compute. "" is no device."""
        if not name:
            return
        with self._looking:  # one probe tells for all who wait
            if name in self.set_aside:
                return
            trouble = self._probe().get(name, "it is not there any more")
            if trouble:
                with self._lock:
                    self.set_aside[name] = trouble

    def _choose(self, job: Job) -> str:
        fitting = [
            device.name
            for device in self._devices
            if device_in_key(device.kind, device.description) == job.key.device
            and (":" not in job.device or device.name == job.device)
        ]
        if job.gpus > 1:
            fitting = fitting[:1]  # a scenario takes those that follow: from the first on there are the most
        left = [name for name in fitting if name not in self.set_aside]
        if not left:
            words = "; ".join(f"{name}: {self.set_aside[name]}" for name in fitting if name in self.set_aside)
            raise NotGradableHere(
                f"No device is left that computes ({words or f'there is no {job.key.device}'}).",
                "`gpututor doctor` tells more. When it works again, go on with --resume; --device virtual needs none.",
            )
        return min(left, key=lambda name: self._users[name])


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
    """Raises `OSError` or `TimeoutExpired`; nothing of it is left then."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        try:
            return child.communicate(timeout=PROBE_TIMEOUT_S)[0]
        except BaseException:
            kill_tree(child.pid)
            raise
