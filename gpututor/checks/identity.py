"""Identity: the objects and storages that a call returns, and inputs that it must not modify."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from gpututor.checks.author_errors import call_author
from gpututor.checks.model import (
    Applies,
    Call,
    Check,
    Finding,
    Machine,
    Run,
    first_finding,
    in_each_call,
    in_each_repetition,
)
from gpututor.checks.trees import part_name, tensors_by_path
from gpututor.errors import CourseError
from gpututor.trace.events import Kind

Pairs = dict[str, str] | Callable[[dict[str, Any], Machine], dict[str, str]]

WHY_IDENTITY = "Moving a tensor to the device that it is on makes no copy and costs nothing: you get the same tensor."
WHY_ALIASING = "Tensors that share memory change together; separate tensors need twice the memory."
WHY = "The caller keeps using its tensors. A function that changes them breaks a later step, far from here."
ADVICE = "Methods that end in _, +=, out= and x[...] = write into a tensor. Make a new one, or clone() it first."
_LISTED = 3


def identity(
    same: Pairs | None = None,
    different: Pairs | None = None,
    *,
    name: str = "identity",
    why: str = WHY_IDENTITY,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """Check that outputs at paths of `same` are the named arguments themselves, and those of `different` are not."""
    words = ("the very tensor passed as", "a tensor other than")
    return _pairs_check(
        name,
        "Tensors that need no move are returned as the same objects",
        [_Rule(same, "identity", True, *words), _Rule(different, "identity", False, *reversed(words))],
        why,
        advice or "Return the tensor itself if nothing has to change, as `.to` does.",
        on,
    )


def aliasing(
    shares: Pairs | None = None,
    separate: Pairs | None = None,
    *,
    name: str = "aliasing",
    why: str = WHY_ALIASING,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """Check that outputs at paths of `shares` share memory with the named arguments, and those of `separate` do not."""
    words = ("sharing memory with", "not sharing memory with")
    return _pairs_check(
        name,
        "Memory is shared where it should be, and nowhere else",
        [_Rule(shares, "storage", True, *words), _Rule(separate, "storage", False, *reversed(words))],
        why,
        advice,
        on,
    )


class _Rule(NamedTuple):
    pairs: Pairs | None
    attribute: str
    """`identity` or `storage` of a `TensorFact`."""
    is_equal: bool
    wanted: str
    met: str


def _pairs_check(name: str, sentence: str, rules: list[_Rule], why: str, advice: str, on: Applies) -> Check:
    def find(run: Run, call: Call) -> Finding | None:
        return first_finding(_first_violation(run, call, rule) for rule in rules)

    return Check(name, lambda _: sentence, in_each_call(find), ("structure",), why, advice, on)


def _first_violation(run: Run, call: Call, rule: _Rule) -> Finding | None:
    pairs = call_author(rule.pairs, call.drawn, run.machine) if callable(rule.pairs) else rule.pairs or {}
    outputs = tensors_by_path(call.output)
    for output_path, argument_path in pairs.items():
        path = "" if output_path == "output" else output_path
        name, argument, output = part_name(path, call.output), call.arguments.get(argument_path), outputs.get(path)
        if argument is None and argument_path in call.before:
            expected, got = f"the argument {argument_path!r} as it was passed", "it is no longer there"
        elif argument is None:
            problem = f"there is no tensor argument {argument_path!r}"
            raise CourseError(problem, f"Known: {', '.join(call.arguments)}.")
        elif output is None:
            expected, got = f"a tensor at {name}", "no tensor there"
        elif (getattr(output.fact, rule.attribute) == getattr(argument, rule.attribute)) is not rule.is_equal:
            expected, got = f"{name}: {rule.wanted} {argument_path!r}", f"{name}: {rule.met} {argument_path!r}"
        else:
            continue
        return run.finding(call, expected, got)
    return None


def unmodified(
    may_change: tuple[str, ...] = (),
    *,
    name: str = "unmodified",
    why: str = WHY,
    advice: str = ADVICE,
    on: Applies = "everywhere",
) -> Check:
    """Check that no tensor among the arguments was changed, removed or added.

    `may_change` are paths (`weights`, with all parts below it) or patterns (`model.*.bias`) of tensors that may change.
    An exercise without a check named `unmodified` gets this one without paths; it is shown only on failure.
    """

    def find(run: Run, call: Call) -> Finding | None:
        ranks = [(f"rank {number}: ", rank) for number, rank in enumerate(call.ranks)] or [("", call)]
        changes = [f"{whose}{words}" for whose, rank in ranks for words in _changes(rank, may_change)]
        if not changes:
            return None
        more = f" and {len(changes) - _LISTED} more" if len(changes) > _LISTED else ""
        got = f"{'; '.join(changes[:_LISTED])}{more}"
        return run.finding(call, "every argument as it was before the call", got, _writing_line(call))

    return Check(name, lambda _: "The arguments are unchanged", in_each_repetition(find), (), why, advice, on)


def _changes(call: Call, may_change: tuple[str, ...]) -> list[str]:
    before, after = call.before, call.after
    words = []
    for path in sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)):
        if not any(fnmatchcase(path, pattern) or path.startswith(f"{pattern}.") for pattern in may_change):
            what = "is gone" if path not in after else "is new" if path not in before else "was changed"
            words.append(f"{path} {what}")
    return words


def _writing_line(call: Call) -> int | None:
    """Return the only line whose kernels write in place, by operator name; None if there are several."""
    lines = {
        event.line
        for event in call.trace
        if event.kind is Kind.KERNEL and event.name.endswith("_") and event.line is not None
    }
    return lines.pop() if len(lines) == 1 else None
