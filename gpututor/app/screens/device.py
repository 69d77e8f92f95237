"""What the device did in one attempt: tabs over one call, the first of them a timeline."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar, Literal, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget

from gpututor.app.messages import LineChosen
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


TABS = (
    TabEntry("Timeline", "timeline", "Timeline"),
    TabEntry("Memory", "memory", "MemoryTab"),
    TabEntry("Times", "times", "TimesTab"),
    TabEntry("Lines", "lines", "LinesTab"),
    TabEntry("Hazards", "hazards", "HazardsTab"),
)


def load_with_tabs(view: RunView) -> RunView:
    """`load`, and all modules that the tabs are made of. For a thread."""
    for entry in TABS:
        import_module(f"{_FOLDER}.{entry.module}")
    return load(view)


@dataclass
class CaseRead(Message):
    """The traces of a case have been read."""

    view: RunView


class DeviceScreen(Screen[DeviceAnswer]):
    """One attempt. Is dismissed with what the learner wants next."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,d,f10", "close", show=False),
        Binding("tab", "next_tab(1)", show=False, priority=True),
        Binding("shift+tab", "next_tab(-1)", show=False, priority=True),
        *(Binding(str(number), f"tab({number - 1})", show=False) for number in range(1, 6)),
        Binding("s", "scenario(1)", show=False),
        Binding("r,f5,ctrl+s", "run", show=False),
        Binding("S", "scenario(-1)", show=False),
        Binding("c", "case(1)", show=False),
        Binding("C", "case(-1)", show=False),
    ]
    AUTO_FOCUS = ""
    MORE_KEYS: ClassVar[tuple[str, ...]] = ()
    """Keys of classes that build on this one, for the last line; of use where there is a view."""

    def __init__(self, view: RunView | None, nothing: str = "") -> None:
        """`nothing`: what is said where there is no view. A view whose traces have been read is shown at once."""
        super().__init__()
        self.view = view
        self.tab_number = 0
        self._nothing = nothing
        self._tabs: dict[int, Widget] = {}
        self._top = TabTitles(id="device-tabs")
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
        keys = getattr(self.tab, "KEYS", "").split(" · ") if self.tab else []
        own = [f"1-{len(TABS)} tabs"]
        if view is not None:
            own += ["c call"] if len(view.cases) > 1 else []
            own += ["s scenario"] if len(view.recording.runs) > 1 else []
            own += self.MORE_KEYS
        else:
            own = ["r run the checks"]
        self._keys.show([key for key in keys if key], [*own, "Esc back"])

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

    def action_close(self) -> None:
        self.dismiss(None)

    @on(LineChosen)
    def _go_to_line(self, message: LineChosen) -> None:
        message.stop()
        self.dismiss(message.line)

    @on(events.Click, "#device-tabs")
    async def _choose_tab(self, event: events.Click) -> None:
        number = event.style.meta.get("tab")
        if number is not None:
            await self.action_tab(int(number))


def case_words(view: RunView) -> str:
    """Where and what it is: attempt, device, call, how long it took."""
    run, case = view.run, view.case
    several = len(view.recording.runs) > 1 and not run.device.startswith(run.scenario)
    where = f"{run.scenario}: {run.device}" if several else run.device
    processes = f", {len(case.calls)} processes" if len(case.calls) > 1 else ""
    taken = f"{duration(case.work_ns)} {run.times}" if run.times else "not timed"
    return f"Attempt {view.attempt} · {where} · {case.words}{processes} · {taken}"


class TabTitles(Widget):
    """The tabs by number, the one in use marked; on the right the exercise and the attempt."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._current, self._title, self._hazards = 0, "", 0

    def show(self, current: int, title: str, hazards: int) -> None:
        self._current, self._title, self._hazards = current, title, hazards
        self.refresh()

    def render(self) -> Content:
        parts: list[Content] = [Content(" ")]
        for number, entry in enumerate(TABS):
            mark = " !" if entry.title == "Hazards" and self._hazards else ""
            text = Content.assemble((f" {number + 1} {entry.title}{mark} ", self._style(number)))
            parts.append(text.stylize(Style.from_meta({"tab": number})))
        line = Content("").join(parts)
        room = self.size.width - line.cell_length - 2
        if room < 6:
            return line
        title = Content(self._title).truncate(room, ellipsis=True)
        return Content.assemble(line, " " * (room - title.cell_length + 1), title.stylize("$foreground-muted"))

    def _style(self, number: int) -> str:
        if number != self._current:
            return "$foreground-muted"
        return "bold reverse" if self.app.no_color else "bold $text on $primary-muted"


class Keys(Widget):
    """The keys of the tab, as many as fit, then those of the screen."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._of_the_tab: list[str] = []
        self._of_the_screen: list[str] = []

    def show(self, of_the_tab: list[str], of_the_screen: list[str]) -> None:
        """Each as `key what it does`."""
        self._of_the_tab, self._of_the_screen = of_the_tab, of_the_screen
        self.refresh()

    def render(self) -> Content:
        room = self.size.width - 1 - sum(len(key) + 2 for key in self._of_the_screen)
        shown = []
        for key in self._of_the_tab:
            if len(key) + 2 <= room:
                room -= len(key) + 2
                shown.append(key)
        parts: list[Content | str | tuple[str, str]] = [" "]
        for entry in (*shown, *self._of_the_screen):
            key, words = _key_and_words(entry)
            parts += [(key, "$text-accent bold"), (f" {words}  ", "$foreground-muted")]
        return Content.assemble(*parts)


def _key_and_words(entry: str) -> tuple[str, str]:
    """`[ ] move` is the two keys `[ ]`; else the first word is the key."""
    if entry.startswith("[ ] "):
        return "[ ]", entry[4:]
    key, _, words = entry.partition(" ")
    return key, words
