"""Source rules: names that the learner's file must or must not use, found in its syntax tree, never in its text."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpututor.checks.model import Applies, Check, Finding, Machine, Run
from gpututor.checks.python_syntax import UNKNOWN, UNREADABLE, Kind, Use, return_line, uses_of
from gpututor.errors import CourseError
from gpututor.grading.report import Status

_NAMED_AT_RUN_TIME = (
    *("getattr", "eval", "exec", "__import__", "globals", "locals", "vars"),
    *("importlib.import_module", "operator.attrgetter", "operator.methodcaller", "sys.modules"),
)
"""Functions and modules that reach names by computed texts, which no syntax tree contains."""


@dataclass(frozen=True)
class UseRule:
    """A kind of use of a name, made by `called`, `in_loop`, `within`, `attribute` and `imported`."""

    kind: Kind
    name: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    looped: bool = False

    def __str__(self) -> str:
        """Return `a call of to(non_blocking=True)`."""
        match self.kind:
            case "call":
                pairs = self.keywords.items()
                keywords = ", ".join(f"{name}={'…' if value is ... else repr(value)}" for name, value in pairs)
                return f"a call of {self.name}({keywords})" + (" in a loop" if self.looped else "")
            case "with":
                return f"a block with {self.name}"
            case "attribute":
                return f"the attribute {self.name}"
        return f"an import of {self.name}"

    def fits(self, use: Use, *, surely: bool) -> bool:
        """Return True if `use` is of this kind; `surely` rejects keywords whose values are unknown."""
        if use.kind != self.kind or (self.looped and not use.in_loop):
            return False
        if self.kind == "import":
            is_named = any(name == self.name or name.startswith(f"{self.name}.") for name in use.names)
        else:
            is_named = any(_matches(self.name, name) for name in use.names)
        return is_named and all(_has(use, name, value, surely) for name, value in self.keywords.items())


def called(name: str, **keywords: Any) -> UseRule:
    """Match a call of any function or method with this name and these keywords.

    A dotted name, such as `torch.tensor`, is matched with imports resolved. A keyword's value is a constant, or `...`
    for a value that is no constant, such as a variable.
    """
    return UseRule("call", name, keywords)


def in_loop(name: str) -> UseRule:
    """Match a call in a loop or comprehension, or in a function of the file that is called in one."""
    return UseRule("call", name, looped=True)


def within(name: str, **keywords: Any) -> UseRule:
    """Match a `with` block or a decorator of that name, such as `torch.no_grad`."""
    return UseRule("with", name, keywords)


def attribute(name: str) -> UseRule:
    """Match any use of an attribute, such as `data`, called or not."""
    return UseRule("attribute", name)


def imported(name: str) -> UseRule:
    """Match an import of a module or of something in it."""
    return UseRule("import", name)


def source(
    *,
    forbid: tuple[str | UseRule, ...] = (),
    require: tuple[str | UseRule, ...] = (),
    name: str = "source",
    why: str = "",
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """Check that the file uses nothing in `forbid`, not even in dead code, and all of `require` in code that can run.

    A name such as `item` or `torch.tensor` is short for `called("item")` or `called("torch.tensor")`. Raises
    `CourseError` for anything that is not a rule.
    """
    forbidden, required = _rules(forbid, name), _rules(require, name)

    def sentence(_: Machine) -> str:
        words = [f"uses {', '.join(_short(rule) for rule in required)}"] if required else []
        words += [f"does not use {', '.join(_short(rule) for rule in forbidden)}"] if forbidden else []
        return f"The file {' and '.join(words)}"

    def find(run: Run) -> Finding | None:
        try:
            uses = uses_of(run.source, run.entry)
        except UNREADABLE:
            return Finding("a readable file", "code that is nested too deeply, or names that are too long")
        for use, rule in itertools.product(uses, forbidden):
            if rule.fits(use, surely=True):
                return Finding(f"no {str(rule).split(' ', 1)[1]}", f"{use.names[0]} at line {use.line}", use.line)
        if forbidden and (unclear := _named_at_run_time(uses)):
            return Finding(
                "names that are spelled out",
                f"{unclear.names[0]}() at line {unclear.line}: only a person can see which name it reaches",
                unclear.line,
                advice="Spell out the name of the attribute or the function.",
                status=Status.NEEDS_REVIEW,
            )
        for rule in required:
            fitting = [use for use in uses if rule.fits(use, surely=False)]
            if not any(use.alive for use in fitting):
                nearest = fitting or [use for use in uses if UseRule(rule.kind, rule.name).fits(use, surely=False)]
                line = nearest[0].line if nearest else return_line(run.source, run.entry)
                return Finding(str(rule), _instead(rule, fitting, nearest), line)
        return None

    return Check(name, sentence, find, (), why, advice, on)


def _named_at_run_time(uses: list[Use]) -> Use | None:
    """Return the first use of a name that is built while the program runs."""
    for use in uses:
        for name in use.names:
            # `model.eval()` is a method; `eval()` itself has nothing before it.
            if name.startswith("builtins.") or (name in _NAMED_AT_RUN_TIME and (use.bare or "." in name)):
                return use
    return None


def _instead(rule: UseRule, fitting: list[Use], nearest: list[Use]) -> str:
    if fitting:
        return f"only at line {fitting[0].line}, which never runs"
    if nearest:
        what = "without these keywords" if rule.keywords else "in no loop"
        return f"{rule.name} {what}, at line {nearest[0].line}"
    return {"call": "no such call", "with": "no such block", "import": "no such import"}.get(rule.kind, "none")


def _rules(given: tuple[str | UseRule, ...], check: str) -> list[UseRule]:
    if not isinstance(given, tuple) or not all(isinstance(rule, str | UseRule) and rule for rule in given):
        raise CourseError(
            f"check {check!r}: {given!r} are not rules",
            "In checks.py, give a tuple of names and of called(), in_loop(), within(), attribute(), imported().",
        )
    return [called(rule) if isinstance(rule, str) else rule for rule in given]


def _short(rule: UseRule) -> str:
    return f"{rule.name}()" if rule.kind == "call" and not rule.keywords and not rule.looped else str(rule)


def _matches(rule: str, name: str) -> bool:
    return name == rule or ("." not in rule and name.rpartition(".")[2] == rule)


def _has(use: Use, keyword: str, value: Any, surely: bool) -> bool:
    if keyword not in use.keywords and "**" not in use.keywords:
        return False
    given = use.keywords.get(keyword, UNKNOWN)
    if given is UNKNOWN:
        return not surely or value is ...
    return value is not ... and type(given) is type(value) and bool(given == value)
