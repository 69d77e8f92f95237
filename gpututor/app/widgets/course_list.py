"""The list of lessons and exercises, with a filter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Offset
from textual.message import Message
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from gpututor.app.commands import screen_bindings
from gpututor.app.messages import ExerciseChosen, LessonChosen
from gpututor.app.widgets.base import OptionRows, PlainText, marked
from gpututor.fuzzy import marks
from gpututor.progress.overview import ExerciseRow, FilteredRows, LessonRow, State, filter_rows, path_titles

_COLORS = {State.PASSED: "$text-success", State.STARTED: "$text-warning", State.TO_DO: "$foreground-muted"}
_WIDE = 70
"""Least width at which rows show their minutes."""


class CourseList(OptionRows):
    """Option list of lessons and exercises."""

    BINDINGS = screen_bindings("course", "rows")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False, compact=True)
        self._listed: FilteredRows = ()
        self._lessons: tuple[LessonRow, ...] = ()
        """The whole course, also what is not listed now."""
        self._wanted = ""
        """Id of the cursor's row, which may not be listed now."""
        self._placed = ""
        """Id of the row that the cursor was put on last."""
        self._words = ""
        """Typed words, whose letters are marked in the rows."""
        self._current = ""
        self._empty = ""
        self._drawn_width = 0

    def show(
        self,
        listed: FilteredRows,
        lessons: tuple[LessonRow, ...],
        current: str,
        empty: str = "",
        words: str = "",
    ) -> None:
        """Draw the rows of `lessons` that are `listed`, or else `empty`; new `words` choose the first exercise.

        `current`: key of the open exercise.
        """
        if current != self._current:
            self._wanted = self._placed = f"exercise {current}"
        else:
            self._note_cursor()
        if words != self._words:
            self._placed = next((row.id for _, rows in listed for row in rows), "") if words else self._wanted
        self._listed, self._lessons, self._current, self._empty = listed, lessons, current, empty
        self._words = words
        self._draw()

    def _note_cursor(self) -> None:
        """Remember the cursor's row if the learner moved the cursor."""
        if (here := self._cursor_id) and here != self._placed:
            self._wanted = self._placed = here

    def on_resize(self, event: events.Resize) -> None:
        if self._width != self._drawn_width:
            self._note_cursor()
            self._draw()

    @property
    def _cursor_id(self) -> str:
        option = self.highlighted_option
        return "" if option is None else option.id or ""

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width or 40

    def _draw(self) -> None:
        self._drawn_width = self._width
        options: list[Option] = []
        # All lessons show their progress in the same way.
        longest = max((len(_name(lesson)) + len(_passed_words(lesson)) for lesson in self._lessons), default=0)
        in_words = longest + 3 <= self._width
        for lesson, rows in self._listed:
            options.append(Option(self._lesson_line(lesson, in_words=in_words), id=lesson.id))
            options += [Option(self._exercise_line(row), id=row.id) for row in rows]
        if not options and self._empty:
            options.append(Option(Content(self._empty), disabled=True))
        self.set_options(options)
        self._placed = self._nearest(self._placed)
        if any(option.id == self._placed for option in self.options):
            self.highlighted = self.get_option_index(self._placed)

    def _nearest(self, wanted: str) -> str:
        """Return the wanted row if it is listed, else the next exercise after it, else the last one before it."""
        listed = {option.id for option in self.options if option.id}
        if wanted in listed or not listed:
            return wanted
        order = [id for lesson in self._lessons for id in (lesson.id, *(row.id for row in lesson.exercises))]
        place = order.index(wanted) if wanted in order else 0
        near = [id for id in (*order[place:], *reversed(order[:place])) if id in listed]
        return next((id for id in near if id.startswith("exercise ")), near[0])

    def visible_rows(self) -> Iterator[tuple[int, Offset]]:
        """Yield the index of each row in sight, and its position on the screen."""
        region = self.scrollable_content_region
        for index, option in enumerate(self.options):
            y = index - round(self.scroll_y)  # each row is one line
            if 0 <= y < region.height and not option.disabled:
                yield index, Offset(region.x, region.y + y)

    def pick(self, index: int) -> None:
        """Select a row, as Enter does."""
        self.highlighted = index
        self.action_select()

    def _lesson_line(self, lesson: LessonRow, *, in_words: bool) -> Content:
        count = _passed_words(lesson) if in_words else f"{lesson.passed}/{len(lesson.exercises)}"
        glyph = "✓ " if lesson.finished else ""
        color = "$text-success" if lesson.finished else "$foreground-muted"
        return self._line((_name(lesson), "bold"), (glyph + count, color))

    def _exercise_line(self, row: ExerciseRow) -> Content:
        arrow = "▸" if row.key == self._current else " "
        before = f"{arrow} {row.state.glyph} "
        name = f"{before}{row.name}"
        star = "★" if row.paths else ""
        word = "" if row.state is State.TO_DO else row.state.value
        if self._width >= _WIDE:
            word = f"{star} {row.minutes:>3} min   {word:>7}"
        elif len(name) + len(f"{star} {word}") >= self._width:
            word = star  # the title is more useful, and the glyph means the same
        else:
            word = f"{star} {word}".strip()
        line = self._line((name, ""), (word, _COLORS[row.state]), glyph_color=_COLORS[row.state])
        spans = ((start + len(before), end + len(before)) for start, end in marks(self._words, row.name))
        return marked(line, spans, no_color=self.app.no_color)

    def _line(self, left: tuple[str, str], right: tuple[str, str], glyph_color: str = "") -> Content:
        """Return a line with `left`, cut to fit, and `right` at the right edge."""
        space = max(4, self._width - len(right[0]) - (1 if right[0] else 0))
        text = Content(left[0]).truncate(space, ellipsis=True, pad=True)
        line = text.stylize(left[1]) if left[1] else text
        if glyph_color:
            line = line.stylize(glyph_color, 2, 3)
        return Content.assemble(line, " ", right) if right[0] else line

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        kind, _, name = (event.option.id or "").partition(" ")
        self.post_message(LessonChosen(name) if kind == "lesson" else ExerciseChosen(name))


def _name(lesson: LessonRow) -> str:
    return f"{lesson.number}  {lesson.title}"


def _passed_words(lesson: LessonRow) -> str:
    return f"{lesson.passed} of {len(lesson.exercises)} passed"


class CourseFilter(Input):
    """Input for the filter. Arrows move the list's cursor."""

    BINDINGS = screen_bindings("course_filter")

    async def action_move(self, action: str) -> None:
        assert isinstance(self.parent, CoursePane)
        await self.parent.list.run_action(action)


class CoursePane(Vertical):
    """The list with its filter and a heading that names the filter."""

    BINDINGS = screen_bindings("course", "filter", "cycle_view")

    @dataclass(eq=False, repr=False)
    class Narrowed(Message):
        """The list shows other exercises, or the filter got or lost the focus."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.list = CourseList(id="course-list")
        self.filter: CourseFilter | None = None
        self._heading = PlainText("", id="course-heading")
        self._lessons: tuple[LessonRow, ...] = ()
        self._current = ""
        self._view: State | str | None = None
        """State or title of the learning path whose exercises are listed."""
        self._words = ""

    def compose(self) -> ComposeResult:
        self._show_heading()
        yield self._heading
        yield self.list

    def show(self, lessons: tuple[LessonRow, ...], current: str) -> None:
        """Draw the rows; `current` is the key of the open exercise."""
        self._lessons, self._current = lessons, current
        self._draw()

    @property
    def is_narrowed(self) -> bool:
        return bool(self._words.strip()) or self._view is not None

    @property
    def is_typing(self) -> bool:
        return self.filter is not None and self.filter.has_focus

    @property
    def _next_view(self) -> State | str | None:
        views = (None, State.TO_DO, State.STARTED, State.PASSED, *path_titles(self._lessons))
        return views[(views.index(self._view) + 1) % len(views)]

    @property
    def next_view(self) -> str:
        """Name of the list that the next press of its key shows."""
        return str(self._next_view or "all").capitalize()

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
        self._view = self._next_view
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
        """Clear the filter once a row is chosen, but keep the view of `v`."""
        if self.filter is not None:
            self._close_filter()
            self._draw()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _focus_changed(self) -> None:
        self.post_message(self.Narrowed())

    def _draw(self) -> None:
        rows = filter_rows(self._lessons, self._words, self._view)
        self.list.show(rows, self._lessons, self._current, self._nothing(), self._words.strip())
        self._show_heading()
        self.post_message(self.Narrowed())

    def _nothing(self) -> str:
        if words := self._words.strip():
            return f"Nothing matches “{words}”. Esc shows all."
        return f"No exercise is {self._view}. Esc shows all." if self._view else "There is no exercise."

    def _show_heading(self) -> None:
        """Show the filter in the pane's title, and above the list if it has no frame."""
        everything = sum(len(lesson.exercises) for lesson in self._lessons)
        shown = sum(len(rows) for _, rows in filter_rows(self._lessons, self._words, self._view))
        how = [str(self._view)] if self._view is not None else []
        if words := self._words.strip():
            how.append(f"“{words}”")
        title = f"Course: {', '.join(how)}, {shown} of {everything}" if how else "Course"
        self.border_title = Content(title)
        self._heading.update(title)
        self._heading.display = bool(how)
