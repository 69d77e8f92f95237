"""Two attempts at an exercise compared: figures, lines, timelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.widget import Widget

from gpututor.app.commands import bar, screen_bindings
from gpututor.app.messages import LineChosen
from gpututor.app.runtime import in_thread
from gpututor.app.screens.base import BaseScreen
from gpututor.app.trace_view.model import OtherRun, RunView
from gpututor.app.trace_view.tabs import TabStack
from gpututor.errors import TutorError
from gpututor.grading.report_text import device_words

if TYPE_CHECKING:
    from gpututor.app.trace_view.comparison import CasePair

PAGES = ("Figures", "Lines", "Timelines")
NOTHING = (
    "There is nothing to compare with yet: no other attempt at this exercise has a recording, and its checks have no"
    " baseline.\n\nChange your file and run the checks again. Then you can compare both runs."
)


class CompareScreen(BaseScreen[int | None]):
    """Dismissed with a line of the left attempt that the learner wants to see, or with None."""

    BINDINGS = screen_bindings("compare")
    AUTO_FOCUS = ""

    def __init__(
        self,
        left: RunView,
        find_others: Callable[[], tuple[OtherRun, ...]],
        save_screen: Callable[[Callable[[str], object]], None],
        news: str = "",
    ) -> None:
        """`find_others` returns other attempts to compare `left` with, the most interesting first. A thread calls it.

        `save_screen` writes a picture of the screen, and later calls the given function with its path in words. `news`
        is the first line above the keys.
        """
        super().__init__()
        self.left = left
        self.others: tuple[OtherRun, ...] | None = None
        """None until they are known."""
        self.other_number = 0
        self.pair: CasePair | None = None
        """The pair that is shown; None until it has been read."""
        self.tabs = TabStack(PAGES, _make_page)
        self._find_others = find_others
        self._save_screen = save_screen
        self._news = news
        self._reading = 0

    def compose(self) -> ComposeResult:
        yield self.tabs

    def on_mount(self) -> None:
        self.tabs.show_message("Reading the recordings …")
        self.tabs.show_notice(self._news)
        self._read()

    def _read(self) -> None:
        """Read both in a thread; the old pair stays until then."""
        self._reading += 1
        self._label()
        # A daemon: leaving the app waits for no disk.
        in_thread(self._read_in_thread, self._reading)

    def _read_in_thread(self, reading: int) -> None:
        try:
            pair = self._read_pair()
        except TutorError as error:
            pair = f"{error.title}\n\n{error.advice}"
        except Exception as error:  # a file can be damaged in any way
            from gpututor.app.runtime import write_log

            write_log(error)
            pair = f"The recordings cannot be compared: {error!r}"
        if reading == self._reading:
            self.call_later(self._show, pair)

    def _read_pair(self) -> CasePair | str:
        """Return the pair with its traces, or why there is none."""
        # 80 ms: NumPy comes with it
        from gpututor.app.trace_view.comparison import load_pair, pair_of, why_not

        if self.others is None:
            self.others = self._find_others()
        if not self.others:
            return NOTHING
        other = self.others[self.other_number]
        pair = pair_of(self.left, other)
        return load_pair(pair) if pair is not None else why_not(self.left, other, another=len(self.others) > 1)

    async def _show(self, pair: CasePair | str) -> None:
        self._label()
        if isinstance(pair, str):
            self.pair = None
            self.tabs.show_message(pair)
            self.focus()
        else:
            self.pair = pair
            await self.tabs.show(pair)

    def _label(self) -> None:
        view, others = self.left, self.others or ()
        position = f" ({self.other_number + 1} of {len(others)})" if len(others) > 1 else ""
        against = f" compared with {others[self.other_number].words}{position}" if others else ""
        unavailable = [*view.unavailable_commands, *(["other"] if len(others) < 2 else [])]
        about = f"Attempt {view.attempt}{against} · {device_words(view.run.device)} · {view.case.words}"
        self.tabs.label(view.title, about, bar("compare", *unavailable))

    async def action_page(self, number: int) -> None:
        await self.tabs.turn_to(number)

    async def action_next_page(self, by: int) -> None:
        await self.tabs.turn(by)

    def action_other(self, by: int) -> None:
        """Compare with another attempt, or the baseline."""
        if self.others and len(self.others) > 1:
            self.other_number = (self.other_number + by) % len(self.others)
            self._read()

    def action_case(self, by: int) -> None:
        self._change(self.left.next_case(by))

    def action_scenario(self, by: int) -> None:
        self._change(self.left.next_run(by))

    def _change(self, left: RunView) -> None:
        if left is not self.left:
            self.left = left
            self._read()

    def action_help(self) -> None:
        from gpututor.app.screens.help import tab_help

        title = ("Figures", "Lines of both", "Both timelines")[self.tabs.number]
        self.app.push_screen(tab_help(title, self.tabs.keys, "compare"))

    def action_save_screen(self) -> None:
        self._save_screen(self.tabs.show_notice)

    @on(LineChosen)
    def _go_to_line(self, message: LineChosen) -> None:
        message.stop()
        self.dismiss(message.line)


def _make_page(number: int) -> Widget:
    from gpututor.app.trace_view.comparison import PairLinesPage, TimelinesPage, figures_page

    return (figures_page, PairLinesPage, TimelinesPage)[number]()
