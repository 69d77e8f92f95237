"""The course list with what narrows it: a line to type words in, and which exercises are shown."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input

from gpututor.app.messages import ExerciseChosen, LessonChosen, ListNarrowed
from gpututor.app.standing import LessonRow, State, listed
from gpututor.app.widgets.course_list import CourseList
from gpututor.app.widgets.plain import PlainText

_VIEWS: tuple[State | None, ...] = (None, State.TO_DO, State.STARTED, State.PASSED)
KEYS = (("Enter", "Open"), ("Esc", "Show all"), ("↓ ↑", "Choose"))
"""What the keys do while words are typed."""


class CourseFilter(Input):
    """One line of words. The arrows move the list's cursor meanwhile."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move('cursor_down')", show=False),
        Binding("up", "move('cursor_up')", show=False),
        Binding("pagedown", "move('page_down')", show=False),
        Binding("pageup", "move('page_up')", show=False),
    ]

    async def action_move(self, action: str) -> None:
        assert isinstance(self.parent, CoursePane)
        await self.parent.list.run_action(action)


class CoursePane(Vertical):
    """Narrows the list; says how. Knows nothing of progress."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", show=False),
        Binding("v", "cycle_view", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.list = CourseList(id="course-list")
        self.filter: CourseFilter | None = None
        self._heading = PlainText("", id="course-heading")
        self._lessons: tuple[LessonRow, ...] = ()
        self._current = ""
        self._view: State | None = None
        self._words = ""

    def compose(self) -> ComposeResult:
        self._say()
        yield self._heading
        yield self.list

    def show(self, lessons: tuple[LessonRow, ...], current: str) -> None:
        """Draw the rows; `current` is the key of the exercise that is open."""
        self._lessons, self._current = lessons, current
        self._draw()

    @property
    def is_narrowed(self) -> bool:
        return bool(self._words.strip()) or self._view is not None

    @property
    def is_typing(self) -> bool:
        """Whether the keys go to the line of words."""
        return self.filter is not None and self.filter.has_focus

    @property
    def next_view(self) -> str:
        """What `v` shows next, in words."""
        state = _VIEWS[(_VIEWS.index(self._view) + 1) % len(_VIEWS)]
        return str(state).capitalize() if state is not None else "All"

    def clear(self) -> None:
        """Show everything again; the cursor stays on its row."""
        self._view = None
        self._close_filter()
        self._draw()

    def _close_filter(self) -> None:
        self._words = ""
        if self.filter is not None:
            if self.filter.has_focus:
                self.list.focus()
            self.filter.remove()
            self.filter = None

    def action_filter(self) -> None:
        if self.filter is None:
            self.filter = CourseFilter(self._words, placeholder="words of a title or a summary", compact=True)
            self.mount(self.filter, before=self.list)
        self.filter.focus()

    def action_cycle_view(self) -> None:
        self._view = _VIEWS[(_VIEWS.index(self._view) + 1) % len(_VIEWS)]
        self._draw()

    @on(Input.Changed)
    def _narrow(self, message: Input.Changed) -> None:
        message.stop()
        if message.input is self.filter and message.value != self._words:
            self._words = message.value
            self._draw()

    @on(Input.Submitted)
    def _open_marked(self, message: Input.Submitted) -> None:
        message.stop()
        self.list.action_select()

    @on(ExerciseChosen)
    @on(LessonChosen)
    def _forget_words(self) -> None:
        """What was looked for is found: the list is whole when one comes back. Which rows `v` shows stays."""
        if self.filter is not None:
            self._close_filter()
            self._draw()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _tell(self) -> None:
        self.post_message(ListNarrowed())

    def _draw(self) -> None:
        rows = listed(self._lessons, self._words, self._view)
        self.list.show(rows, self._lessons, self._current, self._nothing())
        self._say()
        self.post_message(ListNarrowed())

    def _nothing(self) -> str:
        """What to say when no row is left."""
        if words := self._words.strip():
            return f"Nothing matches “{words}”. Esc shows all."
        return f"No exercise is {self._view}. Esc shows all." if self._view is not None else "There is no exercise."

    def _say(self) -> None:
        """Say how the list is narrowed: in the pane's title, and above the list where it has no frame."""
        everything = sum(len(lesson.exercises) for lesson in self._lessons)
        shown = sum(len(rows) for _, rows in listed(self._lessons, self._words, self._view))
        how = [str(self._view)] if self._view is not None else []
        if words := self._words.strip():
            how.append(f"“{words}”")
        title = f"Course: {', '.join(how)}, {shown} of {everything}" if how else "Course"
        self.border_title = Content(title)
        self._heading.update(title)
        self._heading.display = bool(how)
