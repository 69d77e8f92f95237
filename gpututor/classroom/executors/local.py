"""The executor that is always there: some judges on this machine, a thread for each."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gpututor.classroom.executors.one import Broke, Judge, grade_one, judge_in
from gpututor.classroom.executors.real_devices import RealDevices
from gpututor.classroom.work import Attempt, Work
from gpututor.errors import NotGradableHere, TutorError
from gpututor.grading.client import IsolationName

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

    def run(self, work: Work) -> None:
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
        self, work: Work, devices: RealDevices, new_judge: Callable[[], Judge], tell: Callable[[str], None]
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
                outcome = grade_one(self._judge, attempt.job, device, awaited)
        except Broke as broke:
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
