"""Static rules on the files and texts of exercises."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gpututor.authoring.problems import Problem, from_error
from gpututor.course.loader import FEWEST_HINTS
from gpututor.course.model import Course, Exercise, Lesson
from gpututor.errors import CourseError

COLUMNS = 80
CODE_COLUMNS = 74
"""Columns for a line of code in the app, next to its frame, in a terminal of 80 columns."""
TASK_WORDS = (80, 200)
LESSON_WORDS = (500, 1200)
MANY_EXERCISES, WORDS_FOR_ANOTHER = 4, 150
"""A lesson's text may be this much longer for each exercise after the fourth."""
LESSON_HEADINGS = ("The trap", "See it in the trace", "Remember", "Read on")
LEAST_EXAMPLES = 3
FEWEST_WRONG_SOLUTIONS = 3
FEWEST_CASES = 3
TODO = "# TODO"
MAIN = 'if __name__ == "__main__":'
UNWRITTEN = "a skeleton that gpututor new made"
"""Words in each text of a skeleton until its author has written it."""

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_INLINE_CODE = re.compile(r"`[^`]*`")
_DRAWN = re.compile(r"->|<-|→|\+-|##|\|.*\||\d [nµm]?s\b")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")
_MENTION = re.compile(r"\b(exercise|lesson)s? (\d+(?:\.\d+)?)\b", re.IGNORECASE)


class Line(NamedTuple):
    """A line of a Markdown text or of a Python file."""

    number: int
    text: str
    is_code: bool
    """True in Python files and in fenced blocks, fences included."""


def lines_of(text: str) -> Iterator[Line]:
    """Yield the lines of a Markdown text."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        is_fence = line.startswith("```")
        yield Line(number, line, fenced or is_fence)
        fenced ^= is_fence


def code_lines_of(source: str) -> Iterator[Line]:
    """Yield the lines of a Python file."""
    for number, line in enumerate(source.splitlines(), 1):
        yield Line(number, line, is_code=True)


def links(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, target) of each Markdown link outside of code."""
    for line in lines_of(text):
        if not line.is_code and not line.text.startswith("    "):
            for match in _LINK.finditer(_INLINE_CODE.sub("", line.text)):
                yield line.number, match[1]


def mentions(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, `exercise` or `lesson`, number) of each other part of the course that is named by number."""
    for line in lines_of(text):
        if not line.is_code:
            for match in _MENTION.finditer(line.text):
                yield line.number, match[1].lower(), match[2]


def anchors(text: str) -> set[str]:
    """Return the anchors of a text for links `#…`: its headings in lower case, joined by hyphens."""
    headings = [line.text.lstrip("# ") for line in lines_of(text) if not line.is_code and line.text.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def headings(text: str) -> tuple[str, ...]:
    """Return the `## …` headings."""
    return tuple(line.text[3:].strip() for line in lines_of(text) if not line.is_code and line.text.startswith("## "))


def has_drawing(text: str) -> bool:
    """Return True if a block of text, not of Python, has arrows, frames or bars, or times of a trace."""
    is_python = False
    for line in lines_of(text):
        is_python = line.text == "```python" or (is_python and line.text != "```")
        is_block = line.text.startswith("    ") or line.is_code
        if is_block and not is_python and _DRAWN.search(line.text):
            return True
    return False


def examples(text: str) -> int:
    """Return the number of Python blocks."""
    return text.count("```python\n")


def statements_of(source: str) -> list[str]:
    """Return the lines of code in a solution's functions, without docstrings. Raises `SyntaxError`."""
    functions = (
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    bodies = (function.body[ast.get_docstring(function) is not None :] for function in functions)
    numbers = {number for body in bodies for node in body for number in range(node.lineno, (node.end_lineno or 0) + 1)}
    written = source.splitlines()
    return [written[number - 1].strip() for number in sorted(numbers) if written[number - 1].strip()]


def arguments_of(source: str, entry: str) -> tuple[str, ...] | None:
    """Return the argument names of the function `entry`; None if there is none. Raises `SyntaxError`."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            given = node.args
            every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
            return tuple(argument.arg for argument in every if argument is not None)
    return None


def exercise_problems(exercise: Exercise, course: Course) -> Iterator[Problem]:
    """Yield problems of form of an exercise that could be loaded."""
    for rule in (_manifest, _variants, _task, _hints, _starter, _solution, _right, _wrong):
        try:
            yield from rule(exercise)
        except CourseError as error:
            yield from_error(error, exercise.folder)
    for name in ("task.md", "hints.md"):
        yield from _reading(exercise.folder / name, course)


def lesson_problems(lesson: Lesson, course: Course) -> Iterator[Problem]:
    """Yield problems of form of a lesson's text."""
    file = lesson.folder / "lesson.md"
    try:
        text = lesson.text
    except CourseError as error:
        yield from_error(error, file)
        return
    least, most = LESSON_WORDS
    more = WORDS_FOR_ANOTHER * max(0, len(lesson.exercises) - MANY_EXERCISES)
    yield from _length(file, text, (least, most + more))
    for heading in LESSON_HEADINGS:
        if heading not in headings(text):
            advice = "Every lesson has one; other lessons show what belongs there."
            yield Problem(file, f"there is no heading `## {heading}`", advice)
    if "?" not in text.partition("\n## ")[0]:
        yield Problem(file, "there is no question before the first `## …`", "Open with the question that it answers.")
    if not has_drawing(text):
        advice = "Draw what there is to see, or show lines of a trace: in a block of text, not of Python."
        yield Problem(file, "there is neither a diagram nor a trace", advice)
    if (number := examples(text)) < LEAST_EXAMPLES:
        advice = "Write them as ```python blocks; they are run one after the other."
        yield Problem(file, f"expected {LEAST_EXAMPLES} examples or more, found {number}", advice)
    yield from _reading(file, course)


def named_check(wrong_solution: str) -> str:
    """Return the check that a wrong solution names in its first line: `# fails: placement`."""
    return wrong_solution.split("\n", 1)[0].removeprefix("# fails:").strip()


def _manifest(exercise: Exercise) -> Iterator[Problem]:
    if max(exercise.cases, len(exercise.scenarios)) < FEWEST_CASES:
        problem = f"expected {FEWEST_CASES} or more, got {exercise.cases}"
        advice = "Let draw() make other shapes in each case: one odd, one with a size of one."
        yield Problem(exercise.folder / "exercise.toml", problem, advice, key="cases")


def _variants(exercise: Exercise) -> Iterator[Problem]:
    files = [path for path in exercise.folder.rglob("*") if path.suffix in (".md", ".py")] if exercise.variants else []
    text = "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)
    for position, variant in enumerate(exercise.variants):
        if variant.place not in text:
            problem = f"{variant.place} is in no file of the exercise"
            advice = "Write it in place of the value, such as in task.md and checks.py; or remove the variant."
            yield Problem(exercise.folder / "exercise.toml", problem, advice, key=f"variant[{position}].name")


def _task(exercise: Exercise) -> Iterator[Problem]:
    file, text = exercise.folder / "task.md", exercise.task
    yield from _length(file, text, TASK_WORDS)
    if exercise.entry and f"{exercise.entry}(" not in text:
        yield Problem(file, f"it does not name `{exercise.entry}(…)`", "Show the function's signature.")
    if "**Graded on**" not in text:
        yield Problem(file, "it does not say what is graded", "End with a sentence that begins with **Graded on**.")


def _hints(exercise: Exercise) -> Iterator[Problem]:
    file, hints = exercise.folder / "hints.md", exercise.hints
    if len(hints) < FEWEST_HINTS:
        problem = f"expected {FEWEST_HINTS} hints or more, found {len(hints)}"
        yield Problem(file, problem, "Each hint begins with a line `## …`.")
    try:
        statements = statements_of(exercise.solution)
    except SyntaxError:
        return  # reported for the solution
    shown = "\n".join(hints)
    if statements and all(line in shown for line in statements):
        yield Problem(file, "the hints contain the whole solution", "Leave at least a line for the learner to write.")


def _starter(exercise: Exercise) -> Iterator[Problem]:
    file, text = exercise.folder / "starter.py", exercise.starter
    yield from width_problems(file, code_lines_of(text))
    if (number := text.count(TODO)) != 1:
        advice = f"Mark the one place where learners begin with `{TODO}: …`."
        yield Problem(file, f"expected one `{TODO}`, found {number}", advice)
    if MAIN not in text:
        yield Problem(file, f"there is no `{MAIN}`", "Let `gpututor run` show something of what the learner wrote.")
    if not exercise.entry:
        return
    try:
        starter, solution = (arguments_of(source, exercise.entry) for source in (text, exercise.solution))
    except SyntaxError as error:
        yield Problem(file, f"starter or solution is not valid Python: {error.msg}", "Fix the line.", line=error.lineno)
        return
    if starter is None:
        yield Problem(file, f"it does not define {exercise.entry}()", f"Write `def {exercise.entry}(…):` there.")
    elif solution is not None and starter != solution:
        problem = f"its arguments are ({', '.join(starter)}), and the solution's ({', '.join(solution)})"
        yield Problem(file, problem, "Give both the same signature.")


def _solution(exercise: Exercise) -> Iterator[Problem]:
    file, text = exercise.folder / "solution.py", exercise.solution
    yield from width_problems(file, code_lines_of(text))
    before, todo, _ = text.partition(TODO)
    if todo:
        yield Problem(file, f"there is a `{TODO}` in it", "Finish it.", line=before.count("\n") + 1)


def _right(exercise: Exercise) -> Iterator[Problem]:
    for file in exercise.right_solutions:
        if not _is_sentence((exercise.file(f"right/{file.name}").splitlines() or [""])[0]):
            advice = "Example: `# It keeps the products in a list.` Say how this way differs from solution.py."
            yield Problem(file, "expected a sentence about this way, with a full stop", advice, line=1)


def _wrong(exercise: Exercise) -> Iterator[Problem]:
    files = exercise.wrong_solutions
    if len(files) < FEWEST_WRONG_SOLUTIONS:
        problem = f"expected {FEWEST_WRONG_SOLUTIONS} wrong solutions or more, found {len(files)}"
        yield Problem(exercise.folder / "wrong", problem, "Write the mistakes that learners make, one file each.")
    for file in files:
        lines = exercise.file(f"wrong/{file.name}").splitlines()
        if not lines or not named_check(lines[0]).isidentifier():
            yield Problem(file, "expected `# fails: ` and the name of a check", "Name the check that it fails.", line=1)
        if len(lines) < 2 or not _is_sentence(lines[1]):
            advice = "Example: `# It copies row by row.` Instructors see it next to the file's name."
            yield Problem(file, "expected a sentence about the mistake, with a full stop", advice, line=2)


def _is_sentence(line: str) -> bool:
    return line.startswith("# ") and line.endswith(".")


def _length(file: Path, text: str, allowed: tuple[int, int]) -> Iterator[Problem]:
    words, (least, most) = len(text.split()), allowed
    if not least <= words <= most:
        advice = "Say why it matters, what to do, how it is called, and give an example."
        advice = advice if words < least else "Leave out what is not needed here."
        yield Problem(file, f"{words} words; expected {least} to {most}", advice)


def _reading(file: Path, course: Course) -> Iterator[Problem]:
    """Yield problems of any text: heading, width, links, numbers of exercises, and unwritten skeletons."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return  # reported where its content is checked
    if not text.startswith("# "):
        yield Problem(file, "it does not begin with a heading", "Write `# ` and the title in its first line.", line=1)
    yield from width_problems(file, lines_of(text))
    for line, target in links(text):
        yield from _link(file, line, target, text)
    lessons = {str(lesson.number) for lesson in course.lessons}
    exercises = {exercise.label for exercise in course.exercises}
    for line, what, number in mentions(text):
        if "." not in number and what == "exercise":
            continue  # an exercise of this lesson
        if number not in (exercises if "." in number else lessons):
            problem = f"there is no {what} {number} in this course"
            yield Problem(file, problem, "`gpututor list` shows the numbers.", line=line)
    if UNWRITTEN in " ".join(text.split()):
        yield Problem(file, "it is not written yet", f"Write it, and take out “{UNWRITTEN}”.", is_note=True)


def width_problems(file: Path, lines: Iterable[Line]) -> Iterator[Problem]:
    """Yield code that the app would cut, and prose too wide for a plain terminal."""
    for line in lines:
        kind, most = ("code", CODE_COLUMNS) if line.is_code else ("a line", COLUMNS)
        if (width := len(line.text)) > most:
            yield Problem(file, f"{width} columns; {kind} may have {most}", "Break the line.", line=line.number)


def _link(file: Path, line: int, target: str, text: str) -> Iterator[Problem]:
    if _SCHEME.match(target):
        return  # outside of the course
    path, _, anchor = target.partition("#")
    goal = file.parent / path if path else file
    if not goal.exists():
        yield Problem(file, f"the link leads to {path}, which does not exist", "Fix the link.", line=line)
        return
    if anchor and goal.suffix == ".md":
        text = text if goal == file else goal.read_text(encoding="utf-8")
        if anchor not in anchors(text):
            problem = f"the link leads to #{anchor}, but there is no such heading"
            yield Problem(file, problem, "Fix the link.", line=line)
