"""The trace screen: what devices did in a run, and its exports."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TextIO

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.widget import Widget

from gpututor.app.commands import DEVICE_TABS, KeyHint, bar, help_keys, screen_bindings
from gpututor.app.messages import LineChosen
from gpututor.app.screens.base import BaseScreen
from gpututor.app.trace_view.model import RunView, load
from gpututor.app.trace_view.tabs import TabStack
from gpututor.app.widgets.bars import TabBar
from gpututor.errors import TutorError, WorkspaceError
from gpututor.trace.formatting import duration

if TYPE_CHECKING:
    from gpututor.app.trace_view.comparison import Other
    from gpututor.app.trace_view.model import RunView


DeviceAnswer = int | Literal["run"] | None
"""A line of the attempt that the learner wants to see in the editor; that the checks are to be run; or nothing."""
_FOLDER = "gpututor.app.trace_view"
_HAZARDS = list(DEVICE_TABS).index("Hazards")


@dataclass(frozen=True)
class TabEntry:
    """A tab of the screen."""

    title: str
    module: str
    """Of `gpututor.app.trace_view`: NumPy comes with some of them, so they are imported in a thread."""
    widget: str

    def make(self) -> Widget:
        made = getattr(import_module(f"{_FOLDER}.{self.module}"), self.widget)()
        assert isinstance(made, Widget)
        return made


_WIDGETS = (
    ("timeline_tab", "Timeline"),
    ("memory_tab", "MemoryTab"),
    ("times_tab", "times_tab"),
    ("lines_tab", "LinesTab"),
    ("hazards_tab", "HazardsTab"),
)
TABS = tuple(TabEntry(title, *made_by) for title, made_by in zip(DEVICE_TABS, _WIDGETS, strict=True))


def load_with_tabs(view: RunView) -> RunView:
    """`load`, and all modules that the tabs are made of. For a thread."""
    for entry in TABS:
        import_module(f"{_FOLDER}.{entry.module}")
    return load(view)


@dataclass(frozen=True)
class Tools:
    """Functions of the learner's desk that the screen calls."""

    exports: Path
    """The folder for exported files."""
    find_others: Callable[[RunView], tuple[Other, ...]]
    """Finds other attempts to compare with; reads files."""
    save_screen: Callable[[Callable[[str], object]], None]
    """Writes a picture of the screen, and later calls the given function with its path in words."""


@dataclass
class CaseRead(Message):
    """The traces of a case have been read."""

    view: RunView


@dataclass
class Exported(Message):
    """A file was written, or could not be."""

    words: str


class DeviceScreen(BaseScreen[DeviceAnswer]):
    """One attempt. Dismissed with what the learner wants next."""

    BINDINGS: ClassVar[list[BindingType]] = screen_bindings("trace")
    AUTO_FOCUS = ""

    def __init__(
        self, view: RunView | None, nothing: str = "", tools: Tools | None = None, *, running: bool = False
    ) -> None:
        """`nothing`: the text where there is no view. A view whose traces have been read is shown at once.

        `running`: a run is under way, so the screen offers no other. Without `tools` nothing is compared or exported.
        """
        super().__init__()
        self.view = view
        self.tabs = TabStack([entry.title for entry in TABS], lambda number: TABS[number].make())
        self._nothing = nothing
        self._tools = tools
        self._run_is_on = running

    def compose(self) -> ComposeResult:
        yield self.tabs

    async def on_mount(self) -> None:
        if self.view is None:
            self.tabs.show_message(self._nothing)
        elif self.view.loaded is None:
            self._read()
        self._label()
        if self.view is not None and self.view.loaded is not None:
            await self._show_tab()

    # What is shown

    @property
    def tab_number(self) -> int:
        return self.tabs.number

    @tab_number.setter
    def tab_number(self, number: int) -> None:
        self.tabs.number = number

    @property
    def tab(self) -> Widget | None:
        """The widget of the current tab, once it is there."""
        return self.tabs.tab

    def _read(self) -> None:
        view = self.view
        assert view is not None
        # A daemon: leaving the app waits for no disk.
        threading.Thread(target=lambda: self.post_message(CaseRead(load_with_tabs(view))), daemon=True).start()

    @on(CaseRead)
    async def _take_traces(self, message: CaseRead) -> None:
        message.stop()
        now, read = self.view, message.view
        if now is None or (now.run_number, now.case_number) != (read.run_number, read.case_number):
            return
        self.view = read
        await self._show_tab()
        self.tabs.refresh_others(read)

    async def _show_tab(self) -> None:
        """Bring the current tab to the front."""
        if self.view is not None:
            await self.tabs.show(self.view)
            self._label()
            self.tabs.take_focus()

    def _label(self) -> None:
        view = self.view
        if view is None:
            self.tabs.label("", "", self._own_keys)
            return
        has_hazards = any(line.hazards for line in view.run.lines)
        self.tabs.label(view.title, case_words(view), self._own_keys, [_HAZARDS] if has_hazards else [])

    @property
    def _own_keys(self) -> list[KeyHint]:
        """Keys of the screen that can do something now."""
        view = self.view
        if view is None:
            return bar("trace", "pages", "case", "scenario", "compare", "export", "run" * self._run_is_on)
        lacking = ["run"]
        lacking += ["case"] if len(view.cases) < 2 else []
        lacking += ["scenario"] if len(view.recording.runs) < 2 else []
        lacking += ["compare", "export"] if self._tools is None else []
        return bar("trace", *lacking)

    # Commands

    async def action_tab(self, number: int) -> None:
        if self.view is None or not 0 <= number < len(TABS):
            return
        self.tabs.number = number
        if self.tabs.made:
            await self._show_tab()
        self._label()

    async def action_next_tab(self, by: int) -> None:
        await self.action_tab((self.tabs.number + by) % len(TABS))

    def action_scenario(self, by: int) -> None:
        if self.view is not None and len(self.view.recording.runs) > 1:
            self._change(self.view.of_run(self.view.run_number + by))

    def action_case(self, by: int) -> None:
        if self.view is not None and len(self.view.cases) > 1:
            self._change(self.view.of_case(self.view.case_number + by))

    def _change(self, view: RunView) -> None:
        self.view = view
        self._label()
        self._read()

    def action_run(self) -> None:
        self.dismiss("run")

    def action_help(self) -> None:
        from gpututor.app.screens.trace_help import device_help

        without = [*(["run"] if self._run_is_on else []), *(["compare", "export"] if self._tools is None else [])]
        keys = help_keys("trace", *without)
        self.app.push_screen(device_help(TABS[self.tabs.number].title, self.tabs.tab_keys, keys))

    def action_close(self) -> None:
        self.dismiss(None)

    # Tools

    def action_compare(self) -> None:
        """Compare the attempt with another."""
        from gpututor.app.screens.compare import CompareScreen

        view, tools = self.view, self._tools
        if view is not None and tools is not None:
            screen = CompareScreen(view, lambda: tools.find_others(view), tools.save_screen)
            self.app.push_screen(screen, self._after_comparison)

    def _after_comparison(self, line: int | None) -> None:
        if line is not None:
            self.dismiss(line)

    def action_export(self) -> None:
        """Write the trace of the call for Perfetto; a long one takes a moment."""
        view, tools = self.view, self._tools
        if view is None or tools is None:
            return
        if view.loaded is None:
            self.tabs.show_news("The trace is still being read.")
            return
        self.tabs.show_news("Writing the trace …")
        threading.Thread(
            target=lambda: self.post_message(Exported(_exported(view, tools.exports))), daemon=True
        ).start()

    def action_save_screen(self) -> None:
        """Write a picture of the screen."""
        if self._tools is not None:
            self._tools.save_screen(self.tabs.show_news)

    @on(Exported)
    def _show_exported(self, message: Exported) -> None:
        message.stop()
        self.tabs.show_news(message.words)

    @on(LineChosen)
    def _go_to_line(self, message: LineChosen) -> None:
        message.stop()
        self.dismiss(message.line)

    @on(TabBar.Chosen)
    async def _choose_tab(self, message: TabBar.Chosen) -> None:
        await self.action_tab(message.number)


def case_words(view: RunView) -> str:
    """Where and what it is: attempt, device, call, how long it took."""
    run, case = view.run, view.case
    several = len(view.recording.runs) > 1 and not run.device.startswith(run.scenario)
    where = f"{run.scenario}: {run.device}" if several else run.device
    processes = f", {len(case.calls)} processes" if len(case.calls) > 1 else ""
    taken = f"{duration(case.work_ns)} {run.times}" if run.times else "not timed"
    return f"Attempt {view.attempt} · {where} · {case.words}{processes} · {taken}"


def _exported(view: RunView, folder: Path) -> str:
    """Write the trace into `folder`; the path or the error in words."""

    try:
        path = export_trace(folder, view)
    except TutorError as error:
        return f"{error.title} {error.advice}"
    return f"Written: {FOLDER}/{path.name}. Open it in https://ui.perfetto.dev"


FOLDER = "exports"
"""In the learner's folder."""


def export(folder: Path, name: str, ending: str, write: Callable[[TextIO], None]) -> Path:
    """Write a new file below `folder`, which is made when it is not there; no file is ever replaced.

    `name` is followed by the time, and by a number where that is taken. Raises `WorkspaceError`, in words, for a
    folder that cannot be written and for a full disk; then nothing is left there.
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
            "Look at the rights and the free space of that folder, then try again.",
        ) from error
    return path


def export_trace(folder: Path, view: RunView) -> Path:
    """Write the traces of a case for https://ui.perfetto.dev and chrome://tracing. Takes seconds for long ones.

    Raises `WorkspaceError`, also where there is no trace, or nothing to see in it.
    """
    from gpututor.trace.export import write_timelines

    processes = view.loaded.processes if view.loaded is not None else ()
    if not processes:
        raise WorkspaceError("There is no trace of this call that could be exported.", "Run the checks again.")
    if view.loaded is not None and not view.loaded.used_a_device:
        advice = "Only what a device does can be seen in Perfetto: export an attempt that uses one."
        raise WorkspaceError("No device did anything in this call: nothing was written.", advice)
    label = view.title.partition(" ")[0]
    call = f"-call-{view.case_number + 1}" if len(view.run.calls) > 1 else ""
    scenario = f"-{view.run.scenario}" if len(view.recording.runs) > 1 else ""
    name = f"{label}-attempt-{view.attempt}{scenario}{call}"
    traces = [(process.name, process.rows.trace) for process in processes]
    return export(folder, name, ".json", lambda stream: write_timelines(traces, stream))


def export_picture(folder: Path, name: str, svg: str) -> Path:
    """Write a picture of the screen. Raises `WorkspaceError`."""

    def write(stream: TextIO) -> None:
        stream.write(svg)

    return export(folder, f"{name}-screen", ".svg", write)
