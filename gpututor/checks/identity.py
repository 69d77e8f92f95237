"""Identity and aliasing: an output is the very object that was passed, or shares its memory, or does neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpututor.checks.authors import called
from gpututor.checks.core import Applies, Call, Check, Finding, Machine, Run, named, tensors_by_path
from gpututor.errors import CourseError
from gpututor.wire.observed import TensorFact

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
