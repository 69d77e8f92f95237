"""Identity: which objects and storages a call returns, and that it leaves its inputs unmodified."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from gpututor.checks.authors import called
from gpututor.checks.model import Applies, Call, Check, Finding, Machine, Run, named, tensors_by_path
from gpututor.errors import CourseError
from gpututor.protocol.values import TensorFact
from gpututor.trace.events import Kind

Pairs = dict[str, str] | Callable[[dict[str, Any], Machine], dict[str, str]]

WHY_IDENTITY = "A move that is not needed makes no copy: you get the same tensor back, and it costs nothing."
WHY_ALIASING = "Tensors that share memory change together; tensors that do not, cost memory twice."


def identity(
    same: Pairs | None = None,
    different: Pairs | None = None,
    *,
    name: str = "identity",
    why: str = WHY_IDENTITY,
    advice: str = "",
    on: Applies = "everywhere",
) -> Check:
    """The output at each path of `same` is the very argument named; at each of `different` it is another."""
    return _pairs_check(
        name,
        "What need not move comes back as the very same tensor",
        [
            (same, lambda out, arg: out.identity == arg.identity, "the very tensor passed as", "another tensor than"),
            (
                different,
                lambda out, arg: out.identity != arg.identity,
                "another tensor than",
                "the very tensor passed as",
            ),
        ],
        why,
        advice or "Return the tensor itself where nothing has to be done; `.to` does that by itself.",
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
    """The output at each path of `shares` shares memory with the argument named; at each of `separate` it does not."""
    return _pairs_check(
        name,
        "Memory is shared where it should be, and nowhere else",
        [
            (shares, lambda out, arg: out.storage == arg.storage, "sharing memory with", "with memory apart from"),
            (separate, lambda out, arg: out.storage != arg.storage, "with memory apart from", "sharing memory with"),
        ],
        why,
        advice,
        on,
    )


_Rule = tuple[Pairs | None, Callable[[TensorFact, TensorFact], bool], str, str]


def _pairs_check(name: str, sentence: str, rules: list[_Rule], why: str, advice: str, on: Applies) -> Check:
    def find(run: Run) -> Finding | None:
        for call in run.calls:
            for pairs, holds, wanted, met in rules:
                finding = _first_broken(run, call, pairs, holds, wanted, met)
                if finding is not None:
                    return finding
        return None

    return Check(name, lambda _: sentence, find, ("structure",), why, advice, on)


def _first_broken(
    run: Run,
    call: Call,
    pairs: Pairs | None,
    holds: Callable[[TensorFact, TensorFact], bool],
    wanted: str,
    met: str,
) -> Finding | None:
    chosen = called(pairs, call.drawn, run.machine) if callable(pairs) else pairs or {}
    outputs = tensors_by_path(call.output)
    for output_path, argument_path in chosen.items():
        path = "" if output_path == "output" else output_path
        argument = call.arguments.get(argument_path)
        if argument is None and argument_path in call.before:
            got = f"it is no longer there{run.which(call)}"
            return Finding(f"the argument {argument_path!r} as it was passed", got, run.line_of(call))
        if argument is None:
            raise CourseError(
                f"there is no tensor argument {argument_path!r}", f"There are: {', '.join(call.arguments)}."
            )
        output = outputs.get(path)
        if output is None:
            return Finding(f"a tensor at {named(path)}", f"no tensor there{run.which(call)}", run.line_of(call))
        if not holds(output.fact, argument):
            return Finding(
                expected=f"{named(path)}: {wanted} {argument_path!r}",
                got=f"{named(path)}: {met} {argument_path!r}{run.which(call)}",
                line=run.line_of(call),
            )
    return None


NAME = "unmodified"
WHY = "The caller goes on to use what it passed: a function that changes it spoils the next step, far from here."
ADVICE = "Methods that end in _, +=, out= and x[...] = write into a tensor. Make a new one, or clone() it first."
_LISTED = 3


def unmodified(
    may_change: tuple[str, ...] = (),
    *,
    name: str = NAME,
    why: str = WHY,
    advice: str = ADVICE,
    on: Applies = "everywhere",
) -> Check:
    """No tensor among the arguments was changed, removed or added.

    `may_change` are paths (`weights`, with all below it) or patterns (`model.*.bias`) of those that may be. An
    exercise without a check of the name `unmodified` gets this one with none; it is shown only when it fails.
    """

    def find(run: Run) -> Finding | None:
        for calls in run.repeated or [(call,) for call in run.calls]:
            for call in calls:
                ranks = [
                    f"rank {rank}: {word}" for rank, one in enumerate(call.ranks) for word in _changes(one, may_change)
                ]
                changes = ranks if call.ranks else _changes(call, may_change)
                if changes:
                    more = f" and {len(changes) - _LISTED} more" if len(changes) > _LISTED else ""
                    return Finding(
                        expected="every tensor that was passed as it was before the call",
                        got=f"{'; '.join(changes[:_LISTED])}{more}{run.which(calls[0])}",
                        line=_writing_line(call) or run.line_of(call),
                    )
        return None

    return Check(name, lambda _: "What was passed is as it was", find, (), why, advice, on)


def _changes(call: Call, may_change: tuple[str, ...]) -> list[str]:
    """Words for each argument that is not what it was."""
    before, after = call.before, call.after
    words = []
    for path in sorted(before.keys() | after.keys()):
        if any(_covers(pattern, path) for pattern in may_change) or before.get(path) == after.get(path):
            continue
        what = "is gone" if path not in after else "is new" if path not in before else "was changed"
        words.append(f"{path} {what}")
    return words


def _covers(pattern: str, path: str) -> bool:
    return fnmatchcase(path, pattern) or path.startswith(f"{pattern}.")


def _writing_line(call: Call) -> int | None:
    """The only line whose kernels write in place, by the names of their operators; None where there are several."""
    lines = {
        event.line
        for event in call.trace
        if event.kind is Kind.KERNEL and event.name.endswith("_") and event.line is not None
    }
    return lines.pop() if len(lines) == 1 else None
