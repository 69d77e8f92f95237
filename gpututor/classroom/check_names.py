"""Which checks an exercise has and what they are worth, as far as that is known without PyTorch; and rules that name
others.

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


def points_in_course(exercise: Exercise) -> dict[str, float] | None:
    """What the author gives for each check, by its name; None where `checks.py` does not say it in plain words, or it
    depends on the machine. Never raises."""
    try:
        tree = ast.parse(exercise.checks)
    except (CourseError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    lists = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == "checks" for to in node.targets)
    ]
    if len(lists) != 1 or not isinstance(lists[0], ast.List):
        return None
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    found: dict[str, float] = {}
    for each in lists[0].elts:
        call, points = _without_points(each)
        if not isinstance(call, ast.Call) or points is None:
            return None
        names = _texts_in_call(call) or _function_of(call) - own
        if len(names) != 1 or names & found.keys() or not _is_on_every_gpu(call):
            return None
        found[names.pop()] = points
    return found or None


def _is_on_every_gpu(call: ast.Call) -> bool:
    """Whether the check applies, for one point, wherever there is a GPU."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if None in given or "points" in given:
        return False
    if _function_of(call) == {"speed"} and "real_at_most" not in given:
        return False
    on = given.get("on")
    return on is None or (isinstance(on, ast.Constant) and on.value in ("everywhere", "gpu"))


def _without_points(node: ast.expr) -> tuple[ast.expr, float | None]:
    """`parity(…)` and 4.0 of `parity(…).with_points(4)`; None where it is no plain number."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=inner, attr="with_points"), args=[ast.Constant(value=int() | float() as points)]
        ):
            return inner, float(points)
        case ast.Call(func=ast.Attribute(attr="with_points")):
            return node, None
        case ast.Call(func=ast.Attribute(value=inner, attr="with_kind")):
            return _without_points(inner)
    return node, 1.0


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
