"""The class screen: marks by student and by exercise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from gpututor.app.classroom.class_table import (
    ClassSource,
    ClassTable,
    Order,
    Shown,
    cell_words,
    shown_of,
    table_of,
    title_of,
)
from gpututor.app.classroom.marks_table import MarksTable
from gpututor.app.classroom.regrade_client import RegradeClient
from gpututor.app.commands import bar, screen_bindings
from gpututor.app.runtime import in_thread, write_log
from gpututor.app.screens.base import BaseScreen
from gpututor.app.screens.help import screen_help
from gpututor.app.widgets.bars import KeyBar, TabBar
from gpututor.app.widgets.base import OptionRows, PlainText
from gpututor.app.widgets.output import LongText, OutputSection
from gpututor.classroom.gradebook.model import ExerciseSummary
from gpututor.classroom.review import ReviewReason
from gpututor.errors import TutorError
from gpututor.grading.report import Outcome
from gpututor.grading.report_text import OUTCOME_TITLES, count
from gpututor.text import escape_control_chars, truncate

_TITLE_WIDTH = 28
"""Columns for a title: rows for thousands of students then fit into 80 columns."""
_HELP = (
    "A row for each student, a column for each exercise. ✓ passed; ✗ failed; ○ open or rejected: no mark until you"
    " review it; … waiting to be graded; – not submitted. ! needs a review: the Review page says why. A total that"
    " reads open is not final.",
    "Press / and type words to filter the table. Each word matches the beginning of a student's id, name or"
    " address, of an exercise, an outcome or a failed check. The words open, look and late match marks in that state."
    " Cells that do not match become a dot. Examples: `2.3 failed`, `kim`, `structure`, `open`.",
)


def exercise_rows(table: ClassTable) -> Iterator[Option]:
    """Yield a row for each exercise."""
    students = len(table.rows)
    for exercise in table.gradebook.exercises:
        title = f"{truncate(title_of(exercise), _TITLE_WIDTH):<{_TITLE_WIDTH}}"
        passed = sum(number for outcome, number in exercise.outcomes if outcome is Outcome.PASSED)
        mean = f"mean {exercise.mean_share:4.0%}" if exercise.mean_share is not None else ""
        open_ = f"○ {exercise.without_mark} no mark" if exercise.without_mark else ""
        words = f"{title} {exercise.handed_in:>4}/{students} in  ✓ {passed:>4}  {mean:<9}  {open_}"
        yield Option(Content(words.rstrip()))


def about_exercise(exercise: ExerciseSummary) -> str:
    """Describe the results of an exercise as plain text."""
    lines = [title_of(exercise) + (" (left out of every total)" if exercise.is_dropped else "")]
    lines += [f"{number:>6}  {OUTCOME_TITLES[outcome]}" for outcome, number in exercise.outcomes]
    waiting = exercise.handed_in - sum(number for _, number in exercise.outcomes)
    lines += [f"{waiting:>6}  … Not graded yet"] if waiting > 0 else []
    failed = [check for check in exercise.checks if check.failed]
    lines += ["", "Checks that failed most"] if failed else []
    for check in failed:
        share = f"{check.failed} of {count(check.judged, 'student')}"
        hidden = ", hidden from students" if check.is_hidden else ""
        lines.append(f"{check.failed:>6}  {check.check}: {check.sentence} ({share}{hidden})")
    return escape_control_chars("\n".join(lines))


def review_sections(table: ClassTable) -> list[OutputSection]:
    """Return the review list and the warnings of the gradebook."""
    review = table.review
    assert review is not None
    sections = []
    for kind in ReviewReason:
        texts = []
        for item in (item for item in review.items if item.kind is kind):
            names = [f"{review.called(file.student)} (attempt {file.attempt})" for file in item.files]
            files = ", ".join(names or [*map(review.called, item.students), item.source])
            texts.append(f"{f'{item.label} ' if item.label else ''}{files}\n  {item.why}")
        if texts:
            sections.append(OutputSection(f"{kind.heading}: {count(len(texts), 'item')}", "\n".join(texts)))
    if review.notices:
        notices = (f"{notice.title} {notice.advice}".strip() for notice in review.notices)
        sections.append(OutputSection("Notices", "\n".join(notices)))
    return sections or [OutputSection("✓ Nothing to review", "")]


class FilterLine(Input):
    """Input for filter words; the arrow keys move the table's cursor."""

    BINDINGS = screen_bindings("filter")


PAGES = ("Students", "Exercises", "Review")
_WITHOUT_EFFECT = (
    ("cells", "students"),
    ("cells", "open", "mark_by_hand", "filter", "order"),
    ("open", "students", "mark_by_hand", "filter", "order"),
)
"""Commands without effect, by page."""


class ClassScreen(BaseScreen[None]):
    """A class. A thread reads it, and reads it again when the instructor presses a key."""

    BINDINGS = screen_bindings("class")
    AUTO_FOCUS = ""

    def __init__(self, source: ClassSource, grading: RegradeClient) -> None:
        super().__init__()
        self.table: ClassTable | None = None
        """None until the class has been read."""
        self.page_number = 0
        self.order = Order.ID
        self.shown = Shown((), (), None)
        self.marks = MarksTable(id="class-marks")
        self.news = ""
        self._source = source
        self._grading = grading
        self._reading = 0
        self._is_reading = False
        self._top = TabBar(PAGES, id="class-tabs")
        self._about = PlainText("… Reading the class", id="class-about")
        self._filter = FilterLine(placeholder="student, exercise, outcome, check, open, look, late", compact=True)
        self._cell = PlainText("", id="class-cell")
        self._exercises = OptionRows(id="class-exercises", markup=False, compact=True)
        self._exercise = PlainText("", id="class-exercise")
        self._review = Container(id="class-review")
        self._keys = KeyBar(id="class-keys")

    def compose(self) -> ComposeResult:
        yield self._top
        yield self._about
        yield self._filter
        with Container(id="class-body"):
            with Vertical(id="class-students"):
                yield self.marks.head
                yield self.marks
                yield self._cell
            with Vertical(id="class-by-exercise"):
                yield self._exercises
                yield VerticalScroll(self._exercise, id="class-about-exercise", can_focus=False)
            yield self._review
        yield self._keys

    def on_mount(self) -> None:
        self._filter.display = False
        self.action_page(0)
        self.action_read_again()

    def action_read_again(self) -> None:
        """Read the class again; the old table stays until then."""
        self._reading += 1
        self._is_reading = True
        self._describe()
        in_thread(self._read, self._reading)

    def _read(self, reading: int) -> None:
        """Read the class and show it at once; then show it again with the review list, which takes longer."""
        try:
            gradebook = self._source.read()
            self.call_later(self._show_read, reading, table_of(gradebook))
            self.call_later(self._show_read, reading, table_of(gradebook, self._source.review(gradebook)))
        except TutorError as error:
            self.call_later(self._show_read, reading, error)
        except Exception as error:  # files may come and go meanwhile
            write_log(error)
            failure = TutorError(f"The class could not be read: {error!r}", "F5 reads it again.")
            self.call_later(self._show_read, reading, failure)

    def _show_read(self, reading: int, result: ClassTable | TutorError) -> None:
        if reading != self._reading:
            return
        if isinstance(result, TutorError):
            self._is_reading = False
            self.news = f"! {result.title} {result.advice}".strip()
        else:
            self._is_reading = result.review is None
            self.news = ""
            self.table = result
            self._show_table(result)
        self._describe()

    def _show_table(self, table: ClassTable) -> None:
        self._filter_table()
        at = self._exercises.highlighted
        self._exercises.set_options(exercise_rows(table))
        self._exercises.highlighted = min(at or 0, len(table.gradebook.exercises) - 1) if table.columns else None
        if table.review is not None or not self._review.children:
            self._show_review()

    def _show_review(self) -> None:
        """Show the review list; it can be long, so it exists only while its page is shown."""
        self._review.remove_children()
        if self.page_number == 2 and self.table is not None:
            known = self.table.review is not None
            sections = review_sections(self.table) if known else [OutputSection("… Comparing the submissions", "")]
            self._review.mount(LongText(sections))
            self.call_after_refresh(self._take_focus)

    def _filter_table(self) -> None:
        if self.table is not None:
            self.shown = shown_of(self.table, self._filter.value, self.order)
            self.marks.show(self.table, self.shown)
            self._describe()

    def _describe(self) -> None:
        self._top.show(self.page_number, self._source.name)
        keys = bar("class", *_WITHOUT_EFFECT[self.page_number])
        self._keys.show(keys[:-2], keys[-2:])
        if self.table is None:
            self._about.update(self.news or "… Reading the class")
            return
        graded, files = self.table.graded
        students = len(self.table.rows)
        shown = f"{len(self.shown.rows):,} of " if self._filter.value.strip() else ""
        parts = [f"{shown}{count(students, 'student')} by {self.order}", f"{graded:,} of {files:,} files graded"]
        things = len(self.table.review.items) if self.table.review is not None else 0
        parts += [f"{count(things, 'thing')} to look at"] if things else []
        parts += [] if self.table.gradebook.has_names else ["pseudonyms"]
        parts += ["reading …"] if self._is_reading else []
        self._about.update(self.news or " · ".join(parts))

    @on(MarksTable.Moved)
    def _describe_cell(self) -> None:
        cell, row = self.marks.cell, self.marks.row
        if self.table is None:
            return
        if cell is None or row is None:
            empty = "Nothing matches. Esc shows all." if self._filter.value.strip() else "There are no submissions."
            self._cell.update(empty)
            return
        exercise = self.table.gradebook.exercise(cell.mark.exercise)
        self._cell.update(cell_words(row, exercise, cell, self.table))

    def action_page(self, number: int) -> None:
        self.page_number = number
        for at, id_ in enumerate(("class-students", "class-by-exercise", "class-review")):
            self.query_one(f"#{id_}").display = at == number
        self._filter.display = number == 0 and bool(self._filter.value)
        self._show_review()
        self._describe()
        self.call_after_refresh(self._take_focus)

    def _take_focus(self) -> None:
        if self.focused is self._filter:
            return
        texts = self._review.query(LongText)
        page = (self.marks, self._exercises, texts.last() if texts else self._review)[self.page_number]
        page.focus()

    def action_turn(self, by: int) -> None:
        if self.focused is self._filter:
            self.set_focus(self.marks)
        self.action_page((self.page_number + by) % len(PAGES))

    @on(TabBar.Chosen)
    def _choose_page(self, message: TabBar.Chosen) -> None:
        message.stop()
        self.action_page(message.number)

    def action_filter(self) -> None:
        self.action_page(0)
        self._filter.display = True
        self.set_focus(self._filter)  # at once: the next keys are text

    def filter_by(self, words: str) -> None:
        """Show only the matches of `words`, by student."""
        self._filter.value = words
        self.action_page(0)
        self._filter_table()

    @on(Input.Changed)
    def _filter_changed(self, message: Input.Changed) -> None:
        message.stop()
        self._filter_table()

    @on(Input.Submitted)
    def _leave_filter(self, message: Input.Submitted) -> None:
        message.stop()
        self._filter_table()  # the message about the last letter may come later
        self.set_focus(self.marks)
        self._filter.display = bool(self._filter.value)

    def action_move(self, by: int) -> None:
        self.marks.action_move(by, 0)

    def action_order(self) -> None:
        """Change the order of the students."""
        orders = list(Order)
        self.order = orders[(orders.index(self.order) + 1) % len(orders)]
        self._filter_table()

    def action_back(self) -> None:
        """Show all again, then the first page."""
        if self._filter.value or self.focused is self._filter:
            self.set_focus(self.marks)
            self.filter_by("")
        elif self.page_number:
            self.action_page(0)

    async def action_step(self, action: str) -> None:
        """Move in the list of exercises; the table and the texts handle these keys themselves."""
        if self.page_number == 1:
            await self._exercises.run_action(action)

    @on(OptionList.OptionHighlighted)
    def _describe_exercise(self, message: OptionList.OptionHighlighted) -> None:
        message.stop()
        if self.table is not None and message.option_index < len(self.table.gradebook.exercises):
            self._exercise.update(about_exercise(self.table.gradebook.exercises[message.option_index]))
            self.query_one("#class-about-exercise").scroll_home(animate=False)

    @on(OptionList.OptionSelected)
    def _show_its_students(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        if self.table is not None:
            self.filter_by(self.table.columns[message.option_index])

    @on(MarksTable.Chosen)
    def open_cell(self) -> None:
        """Show the submission at the cursor."""
        from gpututor.app.classroom.submission_screen import SubmissionScreen

        cell, table = self.marks.cell, self.table
        if cell is None or table is None:
            return
        if not cell.mark.attempts:
            self._cell.update("There is no submission.")
            return
        self.app.push_screen(SubmissionScreen(table, cell.mark, self.marks.step, self._grading), self._after_submission)

    def action_mark_by_hand(self) -> None:
        """Ask for a mark by hand for the cell at the cursor."""
        from gpututor.app.classroom.mark_dialog import MarkDialog

        cell, row = self.marks.cell, self.marks.row
        if self.page_number == 0 and cell is not None and row is not None and self.table is not None:
            gradebook = self.table.gradebook
            exercise = gradebook.exercise(cell.mark.exercise)
            mark = replace(cell.mark, student=gradebook.real_id(cell.mark.student))
            self.app.push_screen(MarkDialog(self._grading.folder, row, exercise, mark), self._after_mark)

    def _after_mark(self, words: str | None) -> None:
        if words is not None:
            self.action_read_again()

    def _after_submission(self, changed: bool | None) -> None:
        if changed:
            self.action_read_again()

    def go_to(self, student: str) -> None:
        """Put the cursor on a student in the whole table."""
        self.filter_by("")
        self.marks.go_to(student)

    def action_help(self) -> None:
        self.app.push_screen(screen_help("The class", "class", _HELP))

    @property
    def exercise_titles(self) -> list[tuple[str, str]]:
        """Words for the filter and the title of each exercise."""
        if self.table is None:
            return []
        exercises = self.table.gradebook.exercises
        return list(zip(self.table.columns, map(title_of, exercises), strict=True))
