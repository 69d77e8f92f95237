"""Response times of the app in a pseudo-terminal: a key, a cancel, a timeline, and the longest step.

    python -m benchmarks.app [PART …]          echo, cancel, timeline, progress, steps; all without an argument

Prints figures next to their limits; asserts nothing. A measurement starts when keys are written to the terminal, and
ends when the screen that shows their effect has been read. `startup.py` measures the time to the first text.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gpututor.processes import descendants
from tests.support.terminals import Terminal

PROGRAMS = str(Path(__file__).with_name("app_programs.py"))
REAL_APP = "from gpututor.cli.main import main; main([])"
KEYS = 150
WORD = 25
_WORDS = itertools.count()
ENDLESS = "born_on_the_device"
ENDLESS_TEXT = "def make_grid(height, width, device):\n    while True: pass\n"
Size = tuple[int, int]


def started(name: str, home: str, size: Size) -> Terminal:
    return Terminal([PROGRAMS, name], {"GPUTUTOR_HOME": home}, size)


# Key echo


def echo_times_s(terminal: Terminal, keys: int = KEYS) -> list[float]:
    """Type words at the end of the open file; return the seconds until each letter was on the screen."""
    random_numbers = random.Random(7)
    times: list[float] = []
    while len(times) < keys:
        terminal.press("ctrl+end", "enter", "enter")
        terminal.rest(0.3)
        word = f"qz{next(_WORDS)}z"  # occurs nowhere else
        terminal.press(*word)
        terminal.until_shown(word)
        for _ in range(WORD):
            word += random_numbers.choice("abcdefghijklmnopqrstuvwxyz")
            wanted = word
            sent = time.perf_counter()
            terminal.press(word[-1])
            terminal.until(lambda screen, wanted=wanted: wanted in screen, f"for {wanted}")  # type: ignore[misc]
            times.append(terminal.read_at - sent)
            terminal.rest(random_numbers.uniform(0.02, 0.09))
    return times[:keys]


def bare_echo(home: str, size: Size) -> list[float]:
    with started("bare editor", home, size) as terminal:
        terminal.until_shown("import torch")
        terminal.rest(1)
        return echo_times_s(terminal)


def app_echo(home: str, size: Size) -> list[float]:
    with started("app", home, size) as terminal:
        open_code(terminal)
        return echo_times_s(terminal)


def streaming_echo(home: str, size: Size) -> list[float]:
    """Return the echo times while 2,000 verdicts arrive every two seconds."""
    times: list[float] = []
    with started("streaming app", home, size) as terminal:
        open_code(terminal)
        while len(times) < KEYS:
            terminal.press("f5")
            terminal.until_shown("Running the checks")
            terminal.press("f4")
            terminal.rest(0.3)
            times += echo_times_s(terminal, WORD)
    return times


def open_code(terminal: Terminal) -> None:
    terminal.until_shown("Quit")
    terminal.rest(1.5)
    terminal.press("f4")
    terminal.until_shown("import torch")
    terminal.rest(0.5)


def show_echo() -> None:
    looks: dict[str, Callable[[str, Size], list[float]]] = {
        "bare Textual text area": bare_echo,
        "gpututor": app_echo,
        "gpututor, 2,000 verdicts streaming": streaming_echo,
    }
    print(
        f"key echo in a file of 200 lines, {KEYS} keys  median     p95     longest   to bare   (limits: 30 and 60 ms)"
    )
    for size in ((80, 24), (140, 40)):
        bare_s = 0.0
        for name, look in looks.items():
            with tempfile.TemporaryDirectory() as home:
                times = sorted(look(home, size))
            median_s = statistics.median(times)
            bare_s = bare_s or median_s
            columns = (median_s, times[int(len(times) * 0.95)], times[-1])
            figures = "   ".join(f"{seconds * 1e3:5.1f} ms" for seconds in columns)
            print(f"{name:>38} {size[0]:>3}x{size[1]}  {figures}   {median_s / bare_s:6.2f}")


# Cancel


def show_cancel(runs: int = 5) -> None:
    print("\ncancel of an endless loop    'Stopped' shown    its process gone   (limit: 100 ms)")
    with tempfile.TemporaryDirectory() as home:
        prepare_endless(home)
        with Terminal(["-c", REAL_APP], {"GPUTUTOR_HOME": home}) as terminal:
            terminal.until_shown("Quit")
            terminal.rest(2)
            for key in ("escape", "shift+f5"):
                shown, gone = [], []
                for _ in range(runs):
                    busy = run_endless(terminal)
                    sent = time.perf_counter()
                    terminal.press(key)
                    terminal.until_shown("Stopped", 20)
                    shown.append(terminal.read_at - sent)
                    while any(is_alive(pid) for pid in busy):
                        terminal.rest(0.002)
                    gone.append(time.perf_counter() - sent)
                figures = "          ".join(
                    f"{statistics.median(times) * 1e3:4.0f} (≤ {max(times) * 1e3:.0f}) ms" for times in (shown, gone)
                )
                print(f"{key:>24}     {figures}")


def prepare_endless(home: str) -> None:
    os.environ["GPUTUTOR_HOME"] = home
    from gpututor.course.loader import load_course
    from gpututor.course.workspace import make_workspace
    from gpututor.paths import builtin_course, default_workspace, progress_file
    from gpututor.progress.store import ProgressStore

    course = load_course(builtin_course())
    exercise = course.find(ENDLESS)
    make_workspace(default_workspace(), course)[0].write(exercise, ENDLESS_TEXT)
    progress = ProgressStore(progress_file())
    progress.set_current_exercise(exercise.key)
    progress.close()


def run_endless(terminal: Terminal) -> set[int]:
    """Start a run; return the processes that are busy with it."""
    terminal.press("f5")
    terminal.until_shown("On cuda:0", 90)
    deadline = time.perf_counter() + 60
    while time.perf_counter() < deadline:
        before = {pid: cpu_ticks(pid) for pid in descendants(terminal.pid)}
        terminal.rest(0.5)
        # At least half of a core, because other programs may use this machine too.
        busy = {pid for pid, ticks in before.items() if cpu_ticks(pid) - ticks >= 15}
        if busy:
            return busy
    raise TimeoutError("no process is busy")


def stat_of(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name; empty without such a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def cpu_ticks(pid: int) -> int:
    fields = stat_of(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def is_alive(pid: int) -> bool:
    return stat_of(pid)[:1] not in ([], ["Z"])


# The timeline


def show_timeline(runs: int = 5) -> None:
    print("\ntimeline of 20,000 events            median   longest   (limit: 300 ms to open it)")
    with tempfile.TemporaryDirectory() as home, started("recording app", home, (140, 40)) as terminal:
        open_code(terminal)
        terminal.press("f5")
        terminal.until_shown("d shows what it did")
        terminal.rest(2)
        opened, moved = [], []
        for _ in range(runs):
            sent = time.perf_counter()
            terminal.press("f10")
            terminal.until_shown("default stream")
            opened.append(terminal.read_at - sent)
            for key in ("right", "+", "right", "right", "+", "right", "-", "down", "-"):
                before = terminal.grid.text
                sent = time.perf_counter()
                terminal.press(key)
                terminal.until(lambda screen, before=before: screen != before, f"for {key}", 2)  # type: ignore[misc]
                moved.append(terminal.read_at - sent)
                terminal.rest(0.2)
            terminal.press("escape")
            terminal.until_shown("Results")
            terminal.rest(0.5)
    for name, times in (("first opened", opened[:1]), ("opened again", opened[1:]), ("moved, zoomed", moved)):
        print(f"{name:>35}  {statistics.median(times) * 1e3:5.0f} ms  {max(times) * 1e3:5.0f} ms")


# The progress screen


ATTEMPTS = 500
_KINDS = ("parity", "placement", "syncs", "transfers", "launches", "memory", "speed", "overlap", "precision", "source")


def show_progress(runs: int = 5) -> None:
    title = f"screens with {ATTEMPTS} attempts stored"
    print(f"\n{title}      first   median   longest   on a core   to settings   (limit: 200 ms)")
    with tempfile.TemporaryDirectory() as home:
        store_attempts(home)
        with started("app", home, (100, 30)) as terminal:
            terminal.until_shown("Quit")
            terminal.rest(2)
            plain_s = 0.0
            for key, name, words in ((",", "settings", "settings.toml"), ("w", "progress", "at the first try")):
                times, before = [], cpu_ticks(terminal.pid)
                for _ in range(runs + 1):
                    sent = time.perf_counter()
                    terminal.press(key)
                    terminal.until_shown(words)
                    times.append(terminal.read_at - sent)
                    terminal.press("escape")
                    terminal.until(lambda screen, words=words: words not in screen)  # type: ignore[misc]
                    terminal.rest(0.5)
                median_s = statistics.median(times[1:])
                plain_s = plain_s or median_s
                on_a_core_s = (cpu_ticks(terminal.pid) - before) / os.sysconf("SC_CLK_TCK") / len(times)
                columns = (times[0], median_s, max(times), on_a_core_s)
                figures = "  ".join(f"{seconds * 1e3:4.0f} ms" for seconds in columns)
                print(f"{name:>38}  {figures}   {median_s / plain_s:8.2f}")


def store_attempts(home: str) -> None:
    """Fill the progress file with attempts at all exercises. Every fourth attempt passes, the others fail."""
    os.environ["GPUTUTOR_HOME"] = home
    from gpututor.course.loader import load_course
    from gpututor.grading.report import Environment, Outcome, Report, RunSummary, Status, Verdict
    from gpututor.paths import builtin_course, progress_file
    from gpututor.progress.store import ProgressStore

    exercises = load_course(builtin_course()).exercises
    progress = ProgressStore(progress_file())
    environment = Environment("0.1.0", "2.13.0", "3.11.4", "Linux", "process", 7)
    for number in range(ATTEMPTS):
        passes = number % 4 == 3
        verdicts = tuple(
            Verdict(
                kind,
                f"The check {kind} holds",
                Status.FAILED if not passes and kind == _KINDS[number % len(_KINDS)] else Status.PASSED,
                "one GPU",
                line=3,
                expected="no wait in the loop",
                got="20 waits",
                why="A wait makes the device idle. " * 5,
            )
            for kind in _KINDS
        )
        runs = (RunSummary("one GPU", "cuda:0, virtual T4", True, output="epoch 1\n" * 20),)
        key = exercises[number * len(exercises) // ATTEMPTS].key
        outcome = Outcome.PASSED if passes else Outcome.FAILED
        now = f"2026-01-{number // 20 + 1:02}T10:{number % 20 * 2:02}:00+00:00"
        progress.record(
            Report(key, outcome, verdicts, runs, environment, "0" * 64, now, 2.0, ""), "import torch\n" * 40
        )
    progress.close()


# The longest step of the event loop


SESSION: tuple[str, ...] = (
    *("f2", *["down"] * 12, "enter", "f1", "escape", "3", "4"),
    *("ctrl+end", "enter", *"for each in x", "ctrl+home", "f5", "5", "j", "space", "f12", "f3", "h", "h", "h"),
    *("s", "y", "escape", "n", "n", "n", "2", "1", "g", "enter", "2", "n", "f9", "2", "r", "p", "?", "escape"),
    *("1", "j", "j", "G", "enter", "2", "G", "ctrl+p", *"memory", "escape", "x", "escape", "d", "2", "3", "4", "5"),
    *("escape", "/", *"bandwidth", "escape", ";", "escape", "a", "escape", ",", "escape", "D", "escape", "w", "escape"),
)
"""The keys of a typical learner's session."""


Step = tuple[float, list[str]]
"""Processor seconds, and the handlers that ran."""


def longest_steps(size: Size) -> list[Step]:
    """Return the longest steps of a session of keys, the longest first."""
    with tempfile.TemporaryDirectory() as home, started("timed app", home, size) as terminal:
        terminal.until_shown("Quit")
        terminal.rest(2)
        for key in SESSION:
            terminal.press(key)
            terminal.rest(0.25)
        for _ in range(5):
            terminal.press("escape")
            terminal.rest(0.25)
        terminal.press("ctrl+q")
        terminal.until_end()
        steps: list[Step] = json.loads(next(Path(home).rglob("steps.json")).read_text())
        return steps


def show_steps() -> None:
    print("\nlongest steps of the event loop in a session of keys, ms on a core   (limit: 50 ms)")
    for size in ((80, 24), (140, 40)):
        for seconds, names in longest_steps(size)[:6]:
            print(f"{size[0]:>5}x{size[1]} {seconds * 1e3:6.1f} ms  {', '.join(names[:4]) or 'layout and drawing'}")


PARTS = {
    "echo": show_echo,
    "cancel": show_cancel,
    "timeline": show_timeline,
    "progress": show_progress,
    "steps": show_steps,
}


def main(parts: list[str]) -> None:
    os.environ.pop("NO_COLOR", None)
    for name in parts or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
