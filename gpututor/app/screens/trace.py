"""The trace screen: what devices did in a run, and its exports."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple, TextIO, cast

from textual import on
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget

from gpututor.app.commands import bar, screen_bindings
from gpututor.app.messages import LineChosen
from gpututor.app.runtime import in_thread
from gpututor.app.screens.base import BaseScreen
from gpututor.app.trace_view.model import OtherRun, RunView, load
from gpututor.app.trace_view.tabs import TabStack
from gpututor.errors import WorkspaceError
from gpututor.trace.formatting import duration

DeviceAnswer = int | Literal["run"] | None
"""A line of the attempt to show in the editor; `run` to run the checks; or None."""


class _Tab(NamedTuple):
    title: str
    about: str
    """A sentence for the palette."""
    module: str
    """Module of `trace_view`, imported in a thread because some of these modules import NumPy."""
    widget: str
    """Function or class of the module that creates the widget."""


TABS = (
    _Tab("Timeline", "When each kernel and copy of your last run ran.", "timeline_tab", "Timeline"),
    _Tab("Memory", "What your last run held in the device's memory.", "memory_tab", "MemoryTab"),
    _Tab("Times", "How long your last run took, compared with the baseline.", "times_tab", "times_tab"),
    _Tab("Lines", "What each line cost in your last run.", "lines_tab", "LinesTab"),
    _Tab("Hazards", "What may go wrong in your last run, and what is worth changing.", "hazards_tab", "HazardsTab"),
)
_TITLES = [tab.title for tab in TABS]


def make_tab(number: int) -> Widget:
    """Create the widget of a tab, counted from 0."""
    module = import_module(f"gpututor.app.trace_view.{TABS[number].module}")
    return cast("Widget", getattr(module, TABS[number].widget)())


def load_with_tabs(view: RunView) -> RunView:
    """Load the traces of a view and import the modules of all tabs. For a thread."""
    for tab in TABS:
        import_module(f"gpututor.app.trace_view.{tab.module}")
    return load(view)


@dataclass(frozen=True)
class Tools:
    """Functions of the main screen that the trace screen calls."""

    export: Callable[[RunView, Callable[[str], object]], None]
    """Writes a view's traces for Perfetto, and calls the given function with words on it."""
    find_others: Callable[[RunView], tuple[OtherRun, ...]]
    """Finds other attempts to compare with; reads files."""
    save_screen: Callable[[Callable[[str], object]], None]
    """Writes a picture of the screen, and later calls the given function with its path in words."""
    what_if: Callable[[RunView], Screen[None]]
    """Creates the screen that runs an attempt on other GPUs."""


class DeviceScreen(BaseScreen[DeviceAnswer]):
    """Screen of an attempt's trace. Dismissed with the learner's next step."""

    BINDINGS = screen_bindings("trace")
    AUTO_FOCUS = ""

    def __init__(
        self, view: RunView | None, nothing: str = "", tools: Tools | None = None, *, running: bool = False
    ) -> None:
        """`nothing`: the text if there is no view. A view with its traces is shown at once.

        `running`: a run is in progress, so the screen offers no other. Without `tools` it compares and exports nothing.
        """
        super().__init__()
        self.view = view
        self.tabs = TabStack(_TITLES, make_tab)
        self._nothing = nothing
        self._tools = tools
        self._run_in_progress = running

    def compose(self) -> ComposeResult:
        yield self.tabs

    async def on_mount(self) -> None:
        self._label()
        if self.view is None:
            self.tabs.show_message(self._nothing)
        elif self.view.loaded is None:
            self._read(self.view)
        else:
            await self.tabs.show(self.view)

    def _read(self, view: RunView) -> None:
        # A daemon: leaving the app waits for no disk.
        in_thread(lambda: self.call_later(self._show, load_with_tabs(view)))

    async def _show(self, view: RunView) -> None:
        """Show a view with its traces, unless the learner has gone on to another call."""
        now = self.view
        if now is not None and (now.run_number, now.case_number) == (view.run_number, view.case_number):
            self.view = view
            await self.tabs.show(view)

    def _label(self) -> None:
        view = self.view
        if view is None:
            nothing = ("pages", "case", "scenario", "compare", "what_if", "export")
            keys = bar("trace", *nothing, "run" * self._run_in_progress)
            self.tabs.label("", "", keys)
            return
        unavailable = ["run", *view.unavailable_commands, *self._unavailable]
        has_hazards = any(line.hazards for line in view.run.lines)
        self.tabs.label(
            view.title, case_words(view), bar("trace", *unavailable), [_TITLES.index("Hazards")] if has_hazards else []
        )

    @property
    def _unavailable(self) -> list[str]:
        """Commands that need tools, or that no other run is in progress."""
        if self._tools is None:
            return ["compare", "what_if", "export"]
        return ["what_if"] if self._run_in_progress else []

    async def action_tab(self, number: int) -> None:
        if self.view is not None:
            await self.tabs.turn_to(number)

    async def action_next_tab(self, by: int) -> None:
        if self.view is not None:
            await self.tabs.turn(by)

    def action_scenario(self, by: int) -> None:
        self._change(self.view and self.view.next_run(by))

    def action_case(self, by: int) -> None:
        self._change(self.view and self.view.next_case(by))

    def _change(self, view: RunView | None) -> None:
        if view is not None and view is not self.view:
            self.view = view
            if self.tabs.subject is not None:
                self.tabs.subject = view
            self._label()
            self._read(view)

    def action_run(self) -> None:
        self.dismiss("run")

    def action_help(self) -> None:
        from gpututor.app.screens.help import tab_help

        without = [*(["run"] if self._run_in_progress else []), *self._unavailable]
        self.app.push_screen(tab_help(_TITLES[self.tabs.number], self.tabs.keys, "trace", *without))

    def action_compare(self) -> None:
        from gpututor.app.screens.compare import CompareScreen

        view, tools = self.view, self._tools
        if view is not None and tools is not None:
            screen = CompareScreen(view, lambda: tools.find_others(view), tools.save_screen)
            self.app.push_screen(screen, self._after_comparison)

    def action_what_if(self) -> None:
        """Run the attempt on other GPUs; a run in progress comes first."""
        view, tools = self.view, self._tools
        if view is None or tools is None:
            return
        if self._run_in_progress:
            self.tabs.show_notice("The checks are running: wait for their results first.")
        elif view.source is None:
            self.tabs.show_notice("The text of this attempt was not stored.")
        else:
            self.app.push_screen(tools.what_if(view))

    def _after_comparison(self, line: int | None) -> None:
        if line is not None:
            self.dismiss(line)

    def action_export(self) -> None:
        """Write the trace of the call for Perfetto; a long one takes a moment."""
        if self.view is not None and self._tools is not None:
            self._tools.export(self.view, self.tabs.show_notice)

    def action_save_screen(self) -> None:
        if self._tools is not None:
            self._tools.save_screen(self.tabs.show_notice)

    @on(LineChosen)
    def _go_to_line(self, message: LineChosen) -> None:
        message.stop()
        self.dismiss(message.line)


def case_words(view: RunView) -> str:
    """Describe a case: attempt, device, call, and its time."""
    run, case = view.run, view.case
    several = len(view.recording.runs) > 1 and not run.device.startswith(run.scenario)
    where = f"{run.scenario}: {run.device}" if several else run.device
    processes = f", {len(case.calls)} processes" if len(case.calls) > 1 else ""
    taken = f"{duration(case.work_ns)} {run.times}" if run.times else "not timed"
    return f"Attempt {view.attempt} · {where} · {case.words}{processes} · {taken}"


FOLDER = "exports"
"""Folder for exported files in the learner's folder."""


def export(folder: Path, name: str, ending: str, write: Callable[[TextIO], object]) -> Path:
    """Write a new file below `folder`, which is created if necessary; replace no file.

    The file's name is `name` with the time, and a number if that file exists. Raises `WorkspaceError` for a folder
    that cannot be written and for a full disk; then no file is left.
    """
    stem = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.')}-{datetime.now():%Y-%m-%d-%H%M%S}"
    path = folder / f"{stem}{ending}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in count(2):
            try:
                stream = path.open("x", encoding="utf-8")
            except FileExistsError:
                path = folder / f"{stem}-{number}{ending}"
                continue
            try:
                with stream:
                    write(stream)
            except BaseException:
                with contextlib.suppress(OSError):
                    path.unlink()
                raise
            break
    except OSError as error:
        raise WorkspaceError(
            f"{path} cannot be written: {error.strerror or error}.",
            "Check the permissions and the free space of that folder, then try again.",
        ) from error
    return path


def export_trace(folder: Path, view: RunView) -> Path:
    """Write the traces of a case for Perfetto. Takes seconds for long ones. Raises `WorkspaceError`."""
    from gpututor.trace.export import write_timelines

    loaded = view.loaded or load(view).loaded
    assert loaded is not None
    if not loaded.processes:
        raise WorkspaceError("There is no trace of this call to export.", "Run the checks again.")
    if not loaded.used_a_device:
        advice = "Perfetto shows only the work of devices: export an attempt that uses one."
        raise WorkspaceError("No device did anything in this call: nothing was written.", advice)
    label = view.title.partition(" ")[0]
    call = f"-call-{view.case_number + 1}" if len(view.run.calls) > 1 else ""
    scenario = f"-{view.run.scenario}" if len(view.recording.runs) > 1 else ""
    name = f"{label}-attempt-{view.attempt}{scenario}{call}"
    traces = [(process.name, process.rows.trace) for process in loaded.processes]
    return export(folder, name, ".json", lambda stream: write_timelines(traces, stream))
