"""What the device did in one attempt: tabs over one call, the first of them a timeline."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar, Literal, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget

from gpututor.app.commands import DEVICE_TABS
from gpututor.app.messages import LineChosen
from gpututor.app.screens.once import OnceScreen
from gpututor.app.widgets.device.edges import Keys, TabChosen, TabTitles, split_keys
from gpututor.app.widgets.device.view import RunView, Tab, load
from gpututor.app.widgets.plain import PlainText
from gpututor.trace.units import duration

DeviceAnswer = int | Literal["run"] | None
"""A line of the attempt that the learner wants to see in the editor; that the checks are to be run; or nothing."""
_FOLDER = "gpututor.app.widgets.device"


@dataclass(frozen=True)
class TabEntry:
    """A tab of the screen."""

    title: str
    module: str
    """Of `gpututor.app.widgets.device`: NumPy comes with some of them, so they are imported in a thread."""
    widget: str

    def make(self) -> Widget:
        made = getattr(import_module(f"{_FOLDER}.{self.module}"), self.widget)()
        assert isinstance(made, Widget)
        return made


_WIDGETS = (
    ("timeline", "Timeline"),
    ("memory", "MemoryTab"),
    ("times", "TimesTab"),
    ("lines", "LinesTab"),
    ("hazards", "HazardsTab"),
)
TABS = tuple(TabEntry(title, *made_by) for title, made_by in zip(DEVICE_TABS, _WIDGETS, strict=True))


def load_with_tabs(view: RunView) -> RunView:
    """`load`, and all modules that the tabs are made of. For a thread."""
    for entry in TABS:
        import_module(f"{_FOLDER}.{entry.module}")
    return load(view)


@dataclass
class CaseRead(Message):
    """The traces of a case have been read."""

    view: RunView


class DeviceScreen(OnceScreen[DeviceAnswer]):
    """One attempt. Is dismissed with what the learner wants next."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,d,f10", "close", show=False),
        Binding("tab", "next_tab(1)", show=False, priority=True),
        Binding("shift+tab", "next_tab(-1)", show=False, priority=True),
        *(Binding(str(number), f"tab({number - 1})", show=False) for number in range(1, 6)),
        Binding("s", "scenario(1)", show=False),
        Binding("r,f5,ctrl+s", "run", show=False),
        Binding("c", "case(1)", show=False),
        Binding("C", "case(-1)", show=False),
        Binding("question_mark,f1", "help", show=False),
    ]
    AUTO_FOCUS = ""
    MORE_KEYS: ClassVar[tuple[str, ...]] = ()
    """Keys of classes that build on this one, for the last line; of use where there is a view."""

    def __init__(self, view: RunView | None, nothing: str = "", *, running: bool = False) -> None:
        """`nothing`: what is said where there is no view. A view whose traces have been read is shown at once.

        `running`: a run is under way, so that no other is offered.
        """
        super().__init__()
        self.view = view
        self.tab_number = 0
        self._nothing = nothing
        self._run_is_on = running
        self._tabs: dict[int, Widget] = {}
        self._top = TabTitles([entry.title for entry in TABS], id="device-tabs")
        self._case = PlainText("", id="device-case")
        self._body = Container(id="device-body")
        self._keys = Keys(id="device-keys")

    def compose(self) -> ComposeResult:
        yield self._top
        yield self._case
        yield self._body
        yield self._keys

    async def on_mount(self) -> None:
        if self.view is None:
            await self._body.mount(PlainText(self._nothing, classes="nothing"))
        elif self.view.loaded is None:
            self._read()
        self._show_around()
        if self.view is not None and self.view.loaded is not None:
            await self._show_tab()

    # What is shown

    @property
    def tab(self) -> Widget | None:
        """The widget of the tab that is shown, once it is there."""
        return self._tabs.get(self.tab_number)

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
        for number, tab in self._tabs.items():
            if number != self.tab_number:
                cast("Tab", tab).show(read)

    async def _show_tab(self) -> None:
        """Bring the tab to the front; it is made when it is first asked for."""
        if self.view is None:
            return
        tab = self.tab
        if tab is None:
            tab = self._tabs[self.tab_number] = TABS[self.tab_number].make()
            await self._body.mount(tab)
        for other in self._tabs.values():
            other.display = other is tab
        cast("Tab", tab).show(self.view)
        self._show_around()
        take_focus = getattr(tab, "take_focus", tab.focus)
        take_focus()

    def _show_around(self) -> None:
        view = self.view
        title = view.title if view else ""
        hazards = sum(len(line.hazards) for line in view.run.lines) if view else 0
        self._top.show(self.tab_number, title, hazards)
        self._case.update(case_words(view) if view else "")
        self._case.display = view is not None
        self._keys.show(self._tab_keys, [*self._own_keys, ("?", "help"), ("Esc", "back")])

    @property
    def _tab_keys(self) -> list[tuple[str, str]]:
        return split_keys(getattr(self.tab, "KEYS", "")) if self.tab else []

    @property
    def _own_keys(self) -> list[tuple[str, str]]:
        """Keys of the screen that can do something now."""
        if self.view is None:
            return [] if self._run_is_on else [("r", "run the checks")]
        keys = [(f"1-{len(TABS)}", "tab")]
        keys += [("c", "call")] if len(self.view.cases) > 1 else []
        keys += [("s", "scenario")] if len(self.view.recording.runs) > 1 else []
        return [*keys, *split_keys(*self.MORE_KEYS)]

    # Commands

    async def action_tab(self, number: int) -> None:
        if self.view is None or not 0 <= number < len(TABS):
            return
        self.tab_number = number
        if self._tabs:
            await self._show_tab()
        self._show_around()

    async def action_next_tab(self, by: int) -> None:
        await self.action_tab((self.tab_number + by) % len(TABS))

    def action_scenario(self, by: int) -> None:
        if self.view is not None and len(self.view.recording.runs) > 1:
            self._change(self.view.of_run(self.view.run_number + by))

    def action_case(self, by: int) -> None:
        if self.view is not None and len(self.view.cases) > 1:
            self._change(self.view.of_case(self.view.case_number + by))

    def _change(self, view: RunView) -> None:
        self.view = view
        self._show_around()
        self._read()

    def action_run(self) -> None:
        self.dismiss("run")

    def action_help(self) -> None:
        from gpututor.app.screens.device_help import OF_THE_SCREEN, DeviceHelp

        more = [key for key in OF_THE_SCREEN if not (self._run_is_on and key[0] == "r")]
        self.app.push_screen(DeviceHelp(TABS[self.tab_number].title, self._tab_keys, self._own_keys, more))

    def action_close(self) -> None:
        self.dismiss(None)

    @on(LineChosen)
    def _go_to_line(self, message: LineChosen) -> None:
        message.stop()
        self.dismiss(message.line)

    @on(TabChosen)
    async def _choose_tab(self, message: TabChosen) -> None:
        await self.action_tab(message.number)


def case_words(view: RunView) -> str:
    """Where and what it is: attempt, device, call, how long it took."""
    run, case = view.run, view.case
    several = len(view.recording.runs) > 1 and not run.device.startswith(run.scenario)
    where = f"{run.scenario}: {run.device}" if several else run.device
    processes = f", {len(case.calls)} processes" if len(case.calls) > 1 else ""
    taken = f"{duration(case.work_ns)} {run.times}" if run.times else "not timed"
    return f"Attempt {view.attempt} · {where} · {case.words}{processes} · {taken}"
