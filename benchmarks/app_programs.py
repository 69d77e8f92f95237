"""The programs that `benchmarks/app.py` starts in a terminal: `python app_programs.py NAME`, with GPUTUTOR_HOME set."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from textual import _callback
from textual.app import App, ComposeResult
from textual.widgets import TextArea

LINES = 200
STREAMED_VERDICTS = 2000
RECORDED_EVENTS = 20_000
PROGRAM_TEXT = '"""Two hundred lines."""\n\nimport torch\n\n' + "".join(
    f"def step_{number}(x: torch.Tensor, scale: float = {number}.5) -> torch.Tensor:\n"
    f'    """Scale what comes, and add {number}."""\n'
    f"    y = x * scale  # a new tensor\n"
    f"    return torch.relu(y + {number}).sum(dim=-1)\n\n"
    for number in range((LINES - 4) // 5)
)


class BareEditor(App[None]):
    """The same screen in plain Textual, for comparison."""

    def compose(self) -> ComposeResult:
        yield TextArea(PROGRAM_TEXT, show_line_numbers=True)


class StreamingClient:
    """Client that sends many verdicts, with pauses, and then a report with as many output lines, and a recording."""

    def __init__(self, verdicts: int, pause_s: float, events: int) -> None:
        self._verdicts = verdicts
        self._pause_s = pause_s
        self._events = events
        self._cancelled = False

    def warm(self) -> None:
        pass

    def grade(self, request: Any) -> Iterator[Any]:
        from gpututor.grading.events import CheckFinished, GradingCancelled, GradingFinished, ScenarioStarted
        from gpututor.grading.report import Environment, Outcome, Report, RunSummary, Status, Verdict

        self._cancelled = False
        verdicts = []
        yield ScenarioStarted("one GPU", "cuda:0, virtual T4")
        for number in range(self._verdicts):
            status = Status.FAILED if number == 7 else Status.PASSED
            verdict = Verdict(
                f"check {number}", f"Check {number} of many holds", status, "one GPU", line=3, expected="7", got="8"
            )
            verdicts.append(verdict)
            yield CheckFinished(verdict)
            if self._cancelled:
                yield GradingCancelled()
                return
            time.sleep(self._pause_s)
        if self._events and request.recording_folder is not None:
            from tests.support.recordings import long_trace, make_recording

            trace = long_trace(self._events, file=request.file_name)
            make_recording(Path(request.recording_folder), trace, file=request.file_name)
        output = "".join(f"printed line {number}\n" for number in range(self._verdicts))
        key = "/".join(part.partition("_")[2] for part in Path(request.exercise_folder).parts[-2:])
        environment = Environment("0.1.0", "2.13.0", "3.11.4", "Linux", "process", 7)
        runs = (RunSummary("one GPU", "cuda:0, virtual T4", True, output=output),)
        now = "2026-01-02T03:04:05+00:00"
        yield GradingFinished(Report(key, Outcome.FAILED, tuple(verdicts), runs, environment, "0" * 64, now, 2.0, ""))

    def cancel(self) -> None:
        self._cancelled = True

    def close(self) -> None:
        self._cancelled = True


def gpututor_app(verdicts: int = 12, pause_s: float = 0.02, events: int = 0) -> App[None]:
    """Return the app with the built-in course, 200 lines in the current exercise's file, and a `StreamingClient`."""
    from gpututor.app.app import GpututorApp
    from gpututor.app.runtime import GcScheduler
    from gpututor.course.loader import load_course
    from gpututor.course.workspace import make_workspace
    from gpututor.paths import builtin_course, default_workspace, progress_file
    from gpututor.progress.store import ProgressStore

    course = load_course(builtin_course())
    workspace, _ = make_workspace(default_workspace(), course)
    progress = ProgressStore(progress_file())
    current = progress.current_exercise() or course.exercises[0].key
    exercise = next(each for each in course.exercises if each.key == current)
    workspace.write(exercise, PROGRAM_TEXT)
    return GpututorApp(
        course=course,
        workspace=workspace,
        progress=progress,
        client=StreamingClient(verdicts, pause_s, events),
        collector=GcScheduler(),
    )


def time_steps(slowest: list[tuple[float, list[str]]], at_least_s: float = 0.005) -> None:
    """Append each later long step of the event loop to `slowest`: its seconds, and the handlers that ran in it.

    The screen cannot change during a step, so a learner notices a long step as a delay. The seconds are the thread's
    processor time, so other programs of the machine do not count.
    """
    names: list[str] = []
    run, invoke = asyncio.events.Handle._run, _callback._invoke

    def timed_run(handle: asyncio.Handle) -> None:
        names.clear()
        started = time.thread_time()
        run(handle)
        elapsed_s = time.thread_time() - started
        if elapsed_s >= at_least_s:
            slowest.append((elapsed_s, names.copy()))

    async def named_invoke(callback: Any, *parameters: object) -> Any:
        function = callback.func if isinstance(callback, partial) else callback
        name = getattr(function, "__qualname__", type(function).__name__).replace(".<locals>", "")
        owner = getattr(function, "__self__", None)
        names.append(name if owner is None else f"{type(owner).__name__}: {name.rpartition('.')[2]}")
        return await invoke(callback, *parameters)

    asyncio.events.Handle._run = timed_run  # type: ignore[method-assign, assignment]
    _callback._invoke = named_invoke


def main(name: str) -> None:
    match name:
        case "bare editor":
            BareEditor().run()
        case "app":
            gpututor_app().run()
        case "streaming app":
            gpututor_app(STREAMED_VERDICTS, 0.001).run()
        case "recording app":
            gpututor_app(events=RECORDED_EVENTS).run()
        case "timed app":
            slowest: list[tuple[float, list[str]]] = []
            app = gpututor_app(events=RECORDED_EVENTS)
            time_steps(slowest)
            app.run()
            from gpututor.paths import data_folder

            (data_folder() / "steps.json").write_text(json.dumps(sorted(slowest, reverse=True)[:40]))


if __name__ == "__main__":
    gc.disable()  # as `gpututor` does: the app enables it after its start
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the tests know how to make a recording
    main(sys.argv[1])
