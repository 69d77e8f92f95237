"""Unmodified: the tensors that were passed have the same shapes, dtypes and values after the call as before it."""

from __future__ import annotations

from fnmatch import fnmatchcase

from gpututor.checks.core import Applies, Call, Check, Finding, Run
from gpututor.trace.events import Kind

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
