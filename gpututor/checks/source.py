"""Source rules: what the learner's file must or must not call, told by its syntax tree, never by its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpututor.checks.core import Applies, Check, Finding, Machine, Run, return_line


def source(
    *,
    forbid: tuple[str, ...] = (),
    require: tuple[str, ...] = (),
    name: str = "source",
    why: str = "",
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """Calls that must not be there, and calls that must.

    `item` means a call of any attribute or function of that name; `torch.tensor` the dotted call as it is written.
    """

    def sentence(_: Machine) -> str:
        words = [f"uses {', '.join(f'{called}()' for called in require)}"] if require else []
        words += [f"does without {', '.join(f'{called}()' for called in forbid)}"] if forbid else []
        return f"The file {' and '.join(words)}"

    def find(run: Run) -> Finding | None:
        calls = list(called_names(run.source))
        for called, line in calls:
            for rule in forbid:
                if matches(rule, called):
                    return Finding(f"no call of {rule}()", f"{called}() at line {line}", line)
        for rule in require:
            if not any(matches(rule, called) for called, _ in calls):
                return Finding(f"a call of {rule}()", "no such call", return_line(run.source, run.entry))
        return None

    return Check(name, sentence, find, (), why, advice, on)


def called_names(text: str) -> Iterator[tuple[str, int]]:
    """(dotted name, line) of every call in a Python text, such as (`torch.cuda.synchronize`, 7)."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            dotted = _dotted(node.func)
            if dotted:
                yield dotted, node.lineno


def matches(rule: str, called: str) -> bool:
    return called == rule or ("." not in rule and called.rpartition(".")[2] == rule)


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))
