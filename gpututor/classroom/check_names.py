"""Which checks an exercise has, as far as that is known without PyTorch; and rules that name others.

Known are the checks of reports, of `# fails: NAME` in the wrong solutions, and those that `checks.py` names in
words: `parity(…)`, `speed(…, name="fast")`, `Check("seconds", …)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpututor.classroom.rules import Rules
from gpututor.course.exercise import Exercise
from gpututor.course.keys import nearest
from gpututor.errors import CourseError

OWN = ("loads", "runs", "prints")
"""The grader's own checks: every exercise has them, and they are worth nothing."""
_FAILS = re.compile(r"# fails: (\S+)")


def names_in_course(exercise: Exercise) -> frozenset[str]:
    """The names that the exercise's folder tells of. Never raises: what cannot be read tells of none."""
    found = set(OWN)
    for path in exercise.wrong_solutions:
        found.update(_FAILS.findall(_text_of(path).partition("\n")[0]))
    try:
        tree = ast.parse(exercise.checks)
    except (CourseError, ValueError, SyntaxError, RecursionError, MemoryError):
        return frozenset(found)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Check":
            found.update(_texts_in_call(node))
        elif isinstance(node, ast.Assign) and any(
            isinstance(to, ast.Name) and to.id == "checks" for to in node.targets
        ):
            for call in (inner for inner in ast.walk(node.value) if isinstance(inner, ast.Call)):
                found.update(_texts_in_call(call) or _function_of(call))
    return frozenset(found)


def _texts_in_call(call: ast.Call) -> set[str]:
    """The name that is given as `name="…"`, or to a `Check` as its first argument."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "name"]
    if _function_of(call) == {"Check"}:
        given += call.args[:1]
    return {each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def _function_of(call: ast.Call) -> set[str]:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return {name}
    return set()


def _text_of(path: Path) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(400)
    except OSError:
        return ""


@dataclass(frozen=True)
class UnknownCheck:
    """A rule that names a check of which nothing is known."""

    key: tuple[str, ...]
    """Where it stands: `("exercises", "lesson/slug", "points", "party")`."""
    check: str
    advice: str
    is_certain: bool
    """Whether the exercise's checks are known, so that it is a mistake; otherwise no report has told of them yet."""


def unknown_checks(rules: Rules, known: Mapping[str, frozenset[str]]) -> Iterator[UnknownCheck]:
    """`known`: the names by exercise, for those exercises of which any are known."""
    for exercise, own in rules.exercises.items():
        names = known.get(exercise, frozenset())
        for what, checks in (("points", tuple(own.points)), ("extra", own.extra), ("hidden", own.hidden)):
            for check in checks:
                if check not in names:
                    yield _unknown(("exercises", exercise, what), check, names)
    everywhere = frozenset[str]().union(*known.values())
    for check in rules.hidden:
        if check not in everywhere:
            yield _unknown(("hidden",), check, everywhere)


def _unknown(key: tuple[str, ...], check: str, names: frozenset[str]) -> UnknownCheck:
    where = (*key, check) if key[-1] == "points" else key
    if names <= set(OWN):
        advice = "No report has told of its checks yet: the rule holds once one does."
        return UnknownCheck(where, check, advice, is_certain=False)
    return UnknownCheck(where, check, nearest(check, sorted(names)), is_certain=True)
