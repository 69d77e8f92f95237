"""What `classroom grade` says: what was found, how far it is, and what became of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from gpututor.classroom.batch import Trouble
from gpututor.classroom.handed_in import Class
from gpututor.classroom.intake import gone, summary
from gpututor.classroom.start import Start
from gpututor.classroom.work import Progress, Work
from gpututor.cli.fitting import fitting
from gpututor.course.exercise import Course
from gpututor.errors import TutorError
from gpututor.grading.report import Outcome
from gpututor.grading.words import count
from gpututor.plain_text import visible

MOST_TOLD = 10
"""Gradings that could not be done, line by line; the rest is counted."""
LIVE_EVERY_S, PLAIN_EVERY_S = 0.5, 15.0


_OPEN = (
    "Submissions run as you: they can read and change what you can, such as class.secret, the journal, the other "
    "submissions, and the environment of your shell."
)
_OPEN_AS_ROOT = "You are root, so they can change all of this machine. Grade in bubblewrap, or as another user."


class Screen:
    """Says all on `stream`, as long as anybody is there to read it. `again`: what to type to go on."""

    def __init__(self, stream: TextIO, again: str) -> None:
        self.stream = stream
        self._again = again

    def tell_class(self, found: Class, course: Course, before: Class | None = None) -> None:
        """`before`: as it was the last time."""
        for problem in course.problems:
            self._say(f"Left out of the course: {problem.title}")
        for line in [*summary(found, course), *(gone(found, before) if before is not None else ())]:
            self._say(line)

    def tell_start(self, begun: Start) -> None:
        if begun.changed:
            again = ", so gradings are made again" if begun.jobs else "; these gradings are in the journal already"
            self._say(f"Changed since the last time{again}: {begun.changed}.")
        already = f"; {begun.already} are graded already" if begun.already else ""
        if begun.jobs:
            devices = sorted({job.key.device for job in begun.jobs})
            isolation = begun.options.isolation
            how = f"isolation {isolation}, device {' and '.join(devices)}"
            self._say(f"{count(len(begun.jobs), 'grading')} to do{already}: {how}.")
            if isolation == "process":
                self._say(_OPEN)
                if hasattr(os, "geteuid") and os.geteuid() == 0:
                    self._say(_OPEN_AS_ROOT)
        elif begun.already:
            self._say(f"Nothing is left to grade{already}.")
        else:
            self._say("Nothing can be graded: every file is refused, for the reasons above. Feedback tells them, too.")

    def tell_meanwhile(self, line: str) -> None:
        """While `ProgressLine` stands below."""
        if self.stream.isatty():
            _write(self.stream, "\r\x1b[K")
        self._say(line)

    def tell_end(self, begun: Start, work: Work, *, is_stopped: bool) -> None:
        progress = work.progress
        if begun.jobs:
            rate = f" in {duration(progress.elapsed_s)}, {progress.per_s:.1f} a second"
            self._say(f"Graded {progress.done} of {progress.total}{rate}: {outcomes_in_words(progress.outcomes)}.")
        for line in troubles_in_words(work.troubles):
            self._say(f"  {line}")
        if is_stopped:
            self._say(f"Stopped. What is done is kept. Go on with:\n  {self._again}")
        elif work.troubles:
            self._say(f"No student is to blame for these. To try them again:\n  {self._again}")

    def _say(self, line: str) -> None:
        _write(self.stream, fitting("\n".join(map(visible, line.split("\n")))) + "\n")


def _write(stream: TextIO, text: str) -> None:
    """A terminal or a pipe that is gone ends no grading."""
    with contextlib.suppress(OSError):
        stream.write(text)
        stream.flush()


class ProgressLine:
    """While it is entered, how far `work` is: one line that changes on a terminal, else a new line now and then."""

    def __init__(self, work: Work, stream: TextIO) -> None:
        self._work = work
        self._stream = stream
        self._lives = stream.isatty()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._lives:
            _write(self._stream, "\r\x1b[K")

    def _tell(self) -> None:
        while not self._over.wait(LIVE_EVERY_S if self._lives else PLAIN_EVERY_S):
            if self._lives:
                width = shutil.get_terminal_size().columns - 1
                _write(self._stream, f"\r{progress_line(self._work.progress, width)}\x1b[K")
            else:
                _write(self._stream, f"{progress_line(self._work.progress)}\n")


def progress_line(progress: Progress, width: int = 1000) -> str:
    """`412 of 2000, 10.8/s, 2:27 left: 300 passed, 100 failed, 12 error`, as much of it as fits."""
    if not progress.done and not progress.given_up:
        return f"0 of {progress.total}; the graders are starting"[:width]
    left = f", {duration(progress.left_s)} left" if progress.left_s is not None else ""
    parts = [f"{progress.done} of {progress.total}", f", {progress.per_s:.1f}/s{left}"]
    if progress.outcomes:
        parts.append(f": {outcomes_in_words(progress.outcomes)}")
    if progress.retried:
        parts.append(f"; {progress.retried} tried again")
    if progress.given_up:
        parts.append(f"; {progress.given_up} not graded")
    line = ""
    for part in parts:
        if len(line) + len(part) > width:
            return f"{line} …" if len(line) + 2 <= width else line
        line += part
    return line


def troubles_in_words(troubles: Sequence[Trouble]) -> Iterator[str]:
    """What could not be graded, in lines; those together that have the same reason."""
    by_why: dict[str, list[Trouble]] = {}
    for trouble in troubles:
        by_why.setdefault(trouble.why.partition("\n")[0], []).append(trouble)
    for why, same in islice(by_why.items(), MOST_TOLD):
        key, others = same[0].key, len(same) - 1
        which = f"{key.exercise}, submission {key.submission[:12]}, {count(same[0].attempts, 'attempt')}"
        yield f"! not graded: {which}{f', and {others} more' if others else ''}: {why}"
    if len(by_why) > MOST_TOLD:
        rest = sum(map(len, islice(by_why.values(), MOST_TOLD, None)))
        yield f"… and {rest} more: troubles.json has all of them"


def outcomes_in_words(outcomes: Mapping[Outcome, int]) -> str:
    """`300 passed, 100 failed`, in the order of `Outcome`."""
    return ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in Outcome if outcomes.get(outcome)) or "none"


def duration(seconds: float) -> str:
    """`0:07`, `2:27`, `1:02:03`"""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def summary_of(out: Path, begun: Start, work: Work, stopped: BaseException | None) -> dict[str, Any]:
    """What `--json` prints."""
    progress, found = work.progress, begun.found
    return {
        "schema_version": 1,
        "out": str(out),
        "students": len(found.students),
        "handed_in": len(found.handed_in),
        "refused": sum(bool(one.refusal) for one in found.handed_in),
        "unmatched": len(found.unmatched),
        "gradings": begun.already + len(begun.jobs),
        "already": begun.already,
        "done": progress.done,
        "outcomes": {outcome.value: number for outcome, number in progress.outcomes.items()},
        "not_graded": [
            {
                "exercise": trouble.key.exercise,
                "submission": trouble.key.submission,
                "attempts": trouble.attempts,
                "why": trouble.why,
            }
            for trouble in work.troubles
        ],
        "retried": progress.retried,
        "seconds": round(progress.elapsed_s, 1),
        "per_s": round(progress.per_s, 2),
        "stopped": "" if stopped is None else str(stopped) if isinstance(stopped, TutorError) else "interrupted",
    }
