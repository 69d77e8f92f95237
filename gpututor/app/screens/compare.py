"""Two attempts at an exercise side by side: figures, lines, timelines."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar, Protocol, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget

from gpututor.app.messages import LineChosen
from gpututor.app.screens.once import OnceScreen
from gpututor.app.widgets.device.beside import Other, Pair, loaded, pair_of
from gpututor.app.widgets.device.edges import Key, Keys, TabChosen, TabTitles, split_keys
from gpututor.app.widgets.device.view import RunView
from gpututor.app.widgets.plain import PlainText
from gpututor.grading.words import device_words
from gpututor.plain_text import visible

_FOLDER = "gpututor.app.widgets.device"
PAGES = (
    ("Figures", "beside_pages", "FiguresPage"),
    ("Lines", "beside_pages", "PairLinesPage"),
    ("Timelines", "beside_timelines", "TimelinesPage"),
)
"""Title, module and widget: NumPy comes with them, so they are imported in a thread."""


NOTHING = (
    "There is nothing to set this attempt beside yet: no other attempt at this exercise was recorded, and its checks"
    " compare with no baseline.\n\nRun the checks again after a change, and both can be compared."
)


class Page(Protocol):
    """What this screen asks of the widget in a page."""

    KEYS: str

    def show(self, pair: Pair) -> None: ...

    def take_focus(self) -> None: ...


@dataclass
class PairRead(Message):
    """The traces of both have been read."""

    pair: Pair


@dataclass
class NothingToCompare(Message):
    """There is nothing that the attempt could be set beside."""

    words: str
    """Why, and what to do."""


class CompareScreen(OnceScreen[int | None]):
    """Is dismissed with a line of the left attempt that the learner wants to see, or with None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,V,shift+f11,f23", "close", show=False),
        Binding("tab", "next_page(1)", show=False, priority=True),
        Binding("shift+tab", "next_page(-1)", show=False, priority=True),
        *(Binding(str(number), f"page({number - 1})", show=False) for number in range(1, len(PAGES) + 1)),
        Binding("a", "other(1)", show=False),
        Binding("A", "other(-1)", show=False),
        Binding("s", "scenario(1)", show=False),
        Binding("c", "case(1)", show=False),
        Binding("C", "case(-1)", show=False),
        Binding("S", "save_screen", show=False),
        Binding("f1,question_mark", "help", show=False),
    ]
    AUTO_FOCUS = ""

    def __init__(
        self,
        left: RunView,
        find_others: Callable[[], tuple[Other, ...]],
        save_screen: Callable[[Callable[[str], object]], None],
        news: str = "",
    ) -> None:
        """`find_others` is asked in a thread what there is to set `left` beside, the most telling first.

        `save_screen` writes a picture of the screen, and tells the function it is given what came of it, later. `news`
        are shown at first.
        """
        super().__init__()
        self.left = left
        self.others: tuple[Other, ...] | None = None
        """None until they are known."""
        self.other_number = 0
        self.page_number = 0
        self.pair: Pair | None = None
        """What is shown; None while it is being read."""
        self._find_others = find_others
        self._save_screen = save_screen
        self._asked = 0
        self._pages: dict[int, Widget] = {}
        self._top = TabTitles([title for title, _, _ in PAGES], id="device-tabs")
        self._case = PlainText("", id="device-case")
        self._body = Container(id="device-body")
        self._message = PlainText("Reading what was recorded …", classes="nothing")
        self._news = PlainText(news, id="device-news")
        self._news.display = bool(news)
        self._keys = Keys(id="device-keys")

    def compose(self) -> ComposeResult:
        yield self._top
        yield self._case
        with self._body:
            yield self._message
        yield self._news
        yield self._keys

    def on_mount(self) -> None:
        self._read()
        self._show_around()

    def _read(self) -> None:
        """Read both in a thread; what is shown meanwhile stays."""
        self._asked += 1
        number = self._asked
        # A daemon: leaving the app waits for no disk.
        threading.Thread(target=lambda: self._read_now(number), daemon=True).start()

    def _read_now(self, number: int) -> None:
        try:
            read = self._pair_now()
        except Exception as error:  # a damaged file, in whatever way
            from gpututor.app.log import write_log

            write_log(error)
            read = NothingToCompare(f"What was recorded cannot be compared: {error!r}")
        if number == self._asked:
            self.post_message(read)

    def _pair_now(self) -> PairRead | NothingToCompare:
        for _, module, _ in PAGES:
            import_module(f"{_FOLDER}.{module}")
        if self.others is None:
            self.others = self._find_others()
        if not self.others:
            return NothingToCompare(NOTHING)
        pair = pair_of(self.left, self.others[self.other_number])
        if pair is None:
            return NothingToCompare(why_not(self.left, self.others[self.other_number], another=len(self.others) > 1))
        return PairRead(loaded(pair))

    @on(PairRead)
    async def _take(self, message: PairRead) -> None:
        message.stop()
        self.pair = message.pair
        self._message.display = False
        await self._show_page()

    @on(NothingToCompare)
    def _say_so(self, message: NothingToCompare) -> None:
        message.stop()
        self.pair = None
        for page in self._pages.values():
            page.display = False
        self._message.display = True
        self._message.update(message.words)
        self.focus()
        self._show_around()

    async def _show_page(self) -> None:
        if self.pair is None:
            return
        page = self._pages.get(self.page_number)
        if page is None:
            _, module, name = PAGES[self.page_number]
            page = self._pages[self.page_number] = getattr(import_module(f"{_FOLDER}.{module}"), name)()
            await self._body.mount(page)
        for other in self._pages.values():
            other.display = other is page
        cast("Page", page).show(self.pair)
        self._show_around()
        cast("Page", page).take_focus()

    def _show_around(self) -> None:
        view = self.left
        self._top.show(self.page_number, view.title, 0)
        self._case.update(self._words())
        self._keys.show(self._page_keys, [*self._own_keys, ("?", "help"), ("Esc", "back")])

    @property
    def _page_keys(self) -> list[Key]:
        page = self._pages.get(self.page_number)
        return split_keys(cast("Page", page).KEYS) if page is not None and self.pair is not None else []

    @property
    def _own_keys(self) -> list[Key]:
        """Keys of the screen that can do something now."""
        own = [(f"1-{len(PAGES)}", "page")]
        own += [("a", "beside another")] if len(self.others or ()) > 1 else []
        own += [("c", "call")] if len(self.left.cases) > 1 else []
        return own + ([("s", "scenario")] if len(self.left.recording.runs) > 1 else [])

    def _words(self) -> str:
        """What is beside what, and where."""
        view = self.left
        if self.others is None or not self.others:
            beside = ""
        else:
            position = f" ({self.other_number + 1} of {len(self.others)})" if len(self.others) > 1 else ""
            beside = f" beside {self.others[self.other_number].words}{position}"
        where = device_words(view.run.device)
        return f"Attempt {view.attempt}{beside} · {where} · {view.case.words}"

    async def action_page(self, number: int) -> None:
        self.page_number = number
        await self._show_page()
        self._show_around()

    async def action_next_page(self, by: int) -> None:
        await self.action_page((self.page_number + by) % len(PAGES))

    def action_other(self, by: int) -> None:
        """Beside another attempt, or the baseline."""
        if self.others and len(self.others) > 1:
            self.other_number = (self.other_number + by) % len(self.others)
            self._read()
            self._show_around()

    def action_case(self, by: int) -> None:
        if len(self.left.cases) > 1:
            self.left = self.left.of_case(self.left.case_number + by)
            self._read()
            self._show_around()

    def action_scenario(self, by: int) -> None:
        if len(self.left.recording.runs) > 1:
            self.left = self.left.of_run(self.left.run_number + by)
            self._read()
            self._show_around()

    def action_help(self) -> None:
        from gpututor.app.screens.device_help import OF_THE_COMPARISON, DeviceHelp

        about = ("Figures", "Lines of both", "Both timelines")[self.page_number]
        self.app.push_screen(DeviceHelp(about, self._page_keys, self._own_keys, OF_THE_COMPARISON))

    def action_save_screen(self) -> None:
        self._save_screen(self.show_news)

    def show_news(self, words: str) -> None:
        """A line above the keys, until the next one."""
        self._news.update(words)
        self._news.display = bool(words)

    def action_close(self) -> None:
        self.dismiss(None)

    @on(LineChosen)
    def _go_to_line(self, message: LineChosen) -> None:
        message.stop()
        self.dismiss(message.line)

    @on(TabChosen)
    async def _choose_page(self, message: TabChosen) -> None:
        message.stop()
        await self.action_page(message.number)


def why_not(left: RunView, other: Other, *, another: bool) -> str:
    """What `other` lacks to be set beside the run of `left`, and what to do; `another`: there is a third to choose."""
    scenario = visible(left.run.scenario)
    runs = {run.scenario: run for run in other.view.recording.runs if run.calls}
    if any(run.scenario == left.run.scenario for run in other.view.recording.runs):
        missing = f"In “{scenario}”, {other.short} made no call that was recorded: its code stopped before."
    else:
        missing = f"{other.short.capitalize()} did not run in “{scenario}”."
    if runs:
        missing += f" What was recorded of it: {', '.join(f'“{visible(name)}”' for name in runs)}."
    ways = []
    if any(run.scenario in runs for run in left.recording.runs):
        ways.append("s goes on to a scenario that both may have.")
    if another:
        ways.append("a sets another attempt beside it.")
    ways.append("Run the checks again on the same devices, and the two last runs can be compared.")
    return f"{missing}\n\n" + "\n".join(ways)
