"""The part of the main screen that finds the way: links, search, jump letters, and back again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from textual import on
from textual.geometry import Offset
from textual.message import Message
from textual.widget import Widget

from gpututor.app.commands import FOOTERS, Pane
from gpututor.app.grader import Client
from gpututor.app.links import Destination, destination, is_web, line_of
from gpututor.app.main.opening import OpenScreen
from gpututor.app.main.saving import Learner
from gpututor.app.messages import CheckChosen, LinkFollowed, ListNarrowed, PaneChosen, RowChosen
from gpututor.app.widgets.course_pane import KEYS
from gpututor.course.exercise import Exercise, Lesson
from gpututor.errors import CourseError

if TYPE_CHECKING:
    from gpututor.app.screens.jump import Target
    from gpututor.app.text_index import Passage, TextIndex


class _Visit(NamedTuple):
    """A place that was left by a link or a search."""

    exercise: Exercise
    lesson: Lesson | None
    pane: Pane


class FindScreen(OpenScreen):
    """A desk from which everything can be reached."""

    def __init__(self, learner: Learner, exercise: Exercise, client: Client) -> None:
        super().__init__(learner, exercise, client)
        self._visits: list[_Visit] = []
        """The places to go back to, the newest last."""
        self._index: TextIndex | None = None
        self._last_query = ""

    # Links

    @on(LinkFollowed)
    def _follow(self, message: LinkFollowed) -> None:
        if is_web(message.target):
            self.app.open_url(message.target)
            self.status.show_news(f"Opened in the browser: {message.target}")
            return
        here = self.lesson if self.panes.reading is Pane.LESSON else self.exercise
        where = destination(self.learner.course, message.target, here)
        if where is None:
            self.status.show_answer(f"This link leads nowhere: {message.target}")
            return
        self.go_to(where)

    def go_to(self, where: Destination, line: int | None = None) -> None:
        """Open a lesson or a task, at a heading or a line of its text; Backspace comes back."""
        self._visits.append(_Visit(self.exercise, self._lesson, self.panes.current))
        if not self._open(where):
            self._visits.pop()
            return
        if where.anchor:
            line = line_of(self.panes.reader.text, where.anchor)
            if line is None:
                self.status.show_answer(f"There is no heading “{where.anchor}” here.")
        if line is None:
            self.panes.reader.go_to_top()
        else:
            self.panes.reader.go_to_line(line)

    def _open(self, where: Destination) -> bool:
        if where.lesson is not None:
            self.read_lesson(where.lesson)
        elif where.exercise is None or where.exercise.key == self.exercise.key:
            self.show_pane(Pane.TASK)
        else:
            return self.open_exercise(where.exercise, Pane.TASK)
        return True

    def action_go_back(self) -> None:
        if not self._visits:
            self.status.show_answer("There is nothing to go back to.")
            return
        visit = self._visits[-1]
        if visit.exercise.key != self.exercise.key and not self.open_exercise(visit.exercise, visit.pane):
            return
        self._visits.pop()
        self._lesson = visit.lesson
        self.show_pane(visit.pane)

    # Search

    def action_search(self) -> None:
        from gpututor.app.screens.search import SearchScreen  # 10 ms: an input that the main screen does without

        self.app.push_screen(SearchScreen(self._text_index, self._last_query), self._open_found)

    def _text_index(self) -> TextIndex:
        if self._index is None:
            from gpututor.app.text_index import TextIndex

            self._index = TextIndex(self.learner.course)
        return self._index

    def _open_found(self, answer: tuple[Passage | None, str] | None) -> None:
        if answer is None:
            return
        passage, self._last_query = answer
        if passage is None:
            return
        page = passage.page
        where = Destination(lesson=page) if isinstance(page, Lesson) else Destination(exercise=page)
        try:
            self.go_to(where, passage.line)
        except CourseError as error:
            self.show_error(error)

    # The list

    @on(ListNarrowed)
    def _tell_keys(self) -> None:
        self.show_keys()

    def show_keys(self) -> None:
        course = self.panes.course
        if course.is_typing:
            self.key_line.show((), in_editor=False, keys=KEYS)
        elif self.find_keys:
            self.key_line.show((), in_editor=False, keys=self.find_keys)
        elif self.panes.current is Pane.COURSE:
            commands = tuple(id for id in ("cancel", *FOOTERS[Pane.COURSE]) if self._is_of_use(id))
            keys = (("/", "Filter"), ("v", course.next_view), *((("Esc", "Show all"),) if course.is_narrowed else ()))
            self.key_line.show(commands, in_editor=False, keys=keys)
        else:
            super().show_keys()

    def _is_of_use(self, command: str) -> bool:
        return bool(self._visits) if command == "go_back" else super()._is_of_use(command)

    def action_cancel(self) -> None:
        """Esc: close what helps with editing; else stop the run; else show the whole list; else leave for the task."""
        if self.close_help():
            return
        if self.running:
            self.stop_run()
        elif self.panes.current is Pane.COURSE and (self.panes.course.is_narrowed or self.panes.course.is_typing):
            self.panes.course.clear()
        else:
            self.show_pane(Pane.TASK)

    # Jump letters

    def action_jump(self) -> None:
        from gpututor.app.screens.jump import JumpScreen

        def go(message: Message | None) -> None:
            if message is not None:
                self.post_message(message)

        self.app.push_screen(JumpScreen(self._targets(), self), go)

    def _targets(self) -> Iterator[Target]:
        """Everything in sight that one can go to, what is used most first."""
        from gpututor.app.screens.jump import Target

        panes = self.panes
        for widget in (panes.course, panes.reader, panes.editor, panes.results):
            pane = panes.pane_of(widget)
            if pane is not None and pane is not panes.current and widget.is_attached and self._is_seen(widget):
                yield Target(widget.region.offset + Offset(1, 0), PaneChosen(pane))
        for link, offset in panes.reader.visible_links:
            yield Target(_before(offset, panes.reader), LinkFollowed(link.target))
        for row in panes.results.rows:
            if self._is_seen(row) and panes.results.body.scrollable_content_region.contains_point(row.region.offset):
                yield Target(_before(row.region.offset, panes.results), CheckChosen(row))
        for pane, offset in self.tabs.places():
            yield Target(offset, PaneChosen(pane))
        if self._is_seen(panes.course):
            for index, offset in panes.course.list.visible_rows():
                yield Target(_before(offset, panes.course), RowChosen(index))

    @staticmethod
    def _is_seen(widget: Widget) -> bool:
        return widget.is_on_screen and widget.region.area > 0

    @on(RowChosen)
    def _pick_row(self, message: RowChosen) -> None:
        self.panes.course.list.pick(message.index)

    @on(CheckChosen)
    def _go_to_check(self, message: CheckChosen) -> None:
        if not message.row.is_attached:
            return
        self.panes.results.look_at(message.row)
        self.show_pane(Pane.RESULTS)


def _before(offset: Offset, pane: Widget) -> Offset:
    """The column before something, which is blank more often than not, within its pane."""
    return Offset(max(pane.region.x, offset.x - 1), offset.y)
