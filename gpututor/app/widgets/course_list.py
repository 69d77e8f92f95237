"""The list of lessons and exercises with the learner's progress."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from gpututor.app.messages import ExerciseChosen, LessonChosen
from gpututor.app.standing import ExerciseRow, LessonRow, State

_COLOURS = {State.PASSED: "$text-success", State.STARTED: "$text-warning", State.TO_DO: "$foreground-muted"}
_ROOM_FOR_SUMMARIES = 70


class CourseList(OptionList):
    """Shows rows; says which one was picked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "first", show=False),
        Binding("G", "last", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False, compact=True)
        self._lessons: tuple[LessonRow, ...] = ()
        self._current = ""
        self._drawn_width = 0

    def show(self, lessons: tuple[LessonRow, ...], current: str) -> None:
        """Draw the rows; `current` is the key of the exercise that is open."""
        moved = current != self._current
        self._lessons, self._current = lessons, current
        self._draw(follow_current=moved)

    def on_resize(self, event: events.Resize) -> None:
        if self._width != self._drawn_width:
            self._draw(follow_current=False)

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width or 40

    def _draw(self, *, follow_current: bool) -> None:
        self._drawn_width = self._width
        options: list[Option | None] = []
        for lesson in self._lessons:
            if options:
                options.append(None)
            options.append(Option(self._lesson_line(lesson), id=f"lesson {lesson.slug}"))
            options += [Option(self._exercise_line(row), id=f"exercise {row.key}") for row in lesson.exercises]
        highlighted = self.highlighted
        self.set_options(option for option in options if option is not None)
        if follow_current or highlighted is None:
            self._highlight_current()
        else:
            self.highlighted = min(highlighted, self.option_count - 1)

    def _highlight_current(self) -> None:
        for index, option in enumerate(self.options):
            if option.id == f"exercise {self._current}":
                self.highlighted = index
                return

    def _lesson_line(self, lesson: LessonRow) -> Content:
        count = f"{lesson.passed} of {len(lesson.exercises)} passed"
        if self._width < 40:
            count = f"{lesson.passed}/{len(lesson.exercises)}"
        glyph = "✓ " if lesson.finished else ""
        name = f"{lesson.number}  {lesson.title}"
        return self._line((name, "bold"), (glyph + count, "$text-success" if lesson.finished else "$foreground-muted"))

    def _exercise_line(self, row: ExerciseRow) -> Content:
        arrow = "▸" if row.key == self._current else " "
        name = f"{arrow} {row.state.glyph} {row.label} {row.title}"
        word = "" if row.state is State.TO_DO else row.state.value
        if self._width >= _ROOM_FOR_SUMMARIES:
            word = f"{row.minutes} min   {word:>7}"
        elif len(name) + len(word) >= self._width:
            word = ""  # the title says more, and the glyph the same
        return self._line((name, ""), (word, _COLOURS[row.state]), glyph_colour=_COLOURS[row.state])

    def _line(self, left: tuple[str, str], right: tuple[str, str], glyph_colour: str = "") -> Content:
        """`left` cut to fit, and `right` at the right-hand edge."""
        room = max(4, self._width - len(right[0]) - (1 if right[0] else 0))
        text = Content(left[0]).truncate(room, ellipsis=True, pad=True)
        line = text.stylize(left[1]) if left[1] else text
        if self.app.no_color:
            right, glyph_colour = (right[0], ""), ""  # they would be too pale on the reversed row
        if glyph_colour:
            line = line.stylize(glyph_colour, 2, 3)
        return Content.assemble(line, " ", right) if right[0] else line

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        kind, _, name = (event.option.id or "").partition(" ")
        self.post_message(LessonChosen(name) if kind == "lesson" else ExerciseChosen(name))
