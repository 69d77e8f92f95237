"""Starter and solution have the same docstrings, so that a comparison of the two shows code only."""

from __future__ import annotations

import ast

from gpututor.course.loader import load_course
from gpututor.paths import builtin_course


def docstrings(source: str) -> dict[str, str | None]:
    """Return the docstring of each function and class by its name."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {
        node.name: ast.get_docstring(node, clean=False)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, kinds)
    }


def test_starter_and_solution_have_the_same_docstrings() -> None:
    exercises = load_course(builtin_course()).exercises
    assert exercises
    for exercise in exercises:
        starter, solution = docstrings(exercise.starter), docstrings(exercise.solution)
        both = starter.keys() & solution.keys()
        assert {name: starter[name] for name in both} == {name: solution[name] for name in both}, exercise.key
