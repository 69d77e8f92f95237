"""Transfers and waits: copies between devices, bytes, and host synchronizations with their causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpututor.checks.bounds import Amount, in_words, line_of, line_with_most, parse_bounds, where
from gpututor.checks.model import Applies, Call, Check, Finding, Run, count
from gpututor.checks.python_syntax import Use, uses_of
from gpututor.trace.events import Event, Kind
from gpututor.trace.formatting import exact_size

_READS = ("item", "tolist", "float", "int", "bool", "print")
"""What is likely to stand at a line that reads a value of a device."""
_COPIES = ("cpu", "numpy", "tolist", "to", "copy_", "print")
_WORDS = {
    "aten::_local_scalar_dense": "a value of the device that is read",
    "aten::_to_copy": "a copy to the host",
    "aten::copy_": "a copy to the host",
    "cudaFree": "memory that is given back to the driver",
}
_LIKELY = {"aten::_local_scalar_dense": _READS, "aten::_to_copy": _COPIES, "aten::copy_": _COPIES}


def sync_causes(waits: Sequence[Event], source: str, most: int = 4) -> str:
    """The lines with most waits, each with its cause, in the file's order."""
    uses = _uses(source)
    counted = Counter((event.line, event.name) for event in waits if event.line is not None)
    chosen = sorted(counted.most_common(most))
    words = [
        f"{_cause(name, line, uses)} at line {line}" + (f", {times:,} times" if times > 1 else "")
        for (line, name), times in chosen
    ]
    others = len(waits) - sum(times for _, times in chosen)
    return "; ".join([*words, *([f"{others:,} elsewhere" if words else "outside your file"] if others else [])])


def _cause(name: str, line: int | None, uses: Sequence[Use]) -> str:
    """What the learner wrote at that line, where it is one of the usual things; else the operator in words."""
    here = {use.names[0].rpartition(".")[2]: use for use in uses if use.line == line and use.kind == "call"}
    for likely in _LIKELY.get(name, ()):
        if likely in here:
            is_method = len(here[likely].names[0]) > len(likely) or likely not in ("print", "float", "int", "bool")
            return f"`{'.' if is_method else ''}{likely}()`"
    if name in _WORDS:
        return _WORDS[name]
    return f"`{name.removeprefix('aten::')}`" if name.startswith("aten::") else f"`{name}()`"


def _uses(source: str) -> list[Use]:
    try:
        return uses_of(source, "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


WHY_TRANSFERS = "A copy over the bus is far slower than work on the device. Each one should be needed."
WHY_SYNCS = "While the host waits for the device, it launches nothing, and the device soon stands idle."


@dataclass(frozen=True)
class _Direction:
    word: str
    holds: Callable[[Event], bool]


TO_DEVICE = _Direction("host-to-device copy", lambda event: event.to_device)
TO_HOST = _Direction("device-to-host copy", lambda event: event.to_host)
BETWEEN = _Direction("copy between devices", lambda event: event.between_devices)


def transfers(
    *,
    to_device: Amount | None = None,
    to_host: Amount | None = None,
    between: Amount | None = None,
    bytes_to_device: Amount | None = None,
    bytes_to_host: Amount | None = None,
    bytes_between: Amount | None = None,
    asynchronous_to_device: Amount | None = None,
    asynchronous_to_host: Amount | None = None,
    name: str = "transfers",
    why: str = WHY_TRANSFERS,
    advice: str = "",
    on: Applies = "gpu",
) -> Check:
    """Copies in each call, by direction, as a count and in bytes: exactly, as (low, high), or by a function.

    An asynchronous copy is one for which the host does not wait: of pinned memory, with `non_blocking=True`.
    """
    counts = [(TO_DEVICE, to_device), (TO_HOST, to_host), (BETWEEN, between)]
    free = [(TO_DEVICE, asynchronous_to_device), (TO_HOST, asynchronous_to_host)]
    sizes = [(TO_DEVICE, bytes_to_device), (TO_HOST, bytes_to_host), (BETWEEN, bytes_between)]

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            for direction, amount in counts:
                finding = _wrong_count(run, call, direction, amount, name)
                if finding is not None:
                    return finding
            for direction, amount in free:
                finding = _wrong_asynchronous(run, call, direction, amount, name)
                if finding is not None:
                    return finding
            for direction, amount in sizes:
                finding = _wrong_bytes(run, call, direction, amount, name)
                if finding is not None:
                    return finding
        return None

    return Check(name, lambda _: "Only the copies that are needed are made", find, (), why, advice, on)


def syncs(
    *, at_most: Amount = 0, name: str = "syncs", why: str = WHY_SYNCS, advice: str = "", on: Applies = "gpu"
) -> Check:
    """The host waits for a device at most so often in each call."""

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            _, high = parse_bounds(at_most, call, run.machine, name)
            waits = [event for event in call.trace if event.kind is Kind.SYNCHRONISE]
            if len(waits) > high:
                return Finding(
                    expected=f"{'at most ' if high else ''}{count(high, 'wait')} for the device in a call",
                    got=f"{count(len(waits), 'wait')}: {sync_causes(waits, run.source)}{run.which(call)}",
                    line=line_with_most(waits),
                    advice="Keep results on the device; bring one value to the host, once, at the end.",
                )
        return None

    return Check(name, lambda _: "The host waits for the device no more than it must", find, (), why, advice, on)


def _wrong_count(run: Run, call: Call, direction: _Direction, amount: Amount | None, name: str) -> Finding | None:
    if amount is None:
        return None
    low, high = parse_bounds(amount, call, run.machine, name)
    found = [event for event in call.trace if direction.holds(event)]
    if low <= len(found) <= high:
        return None
    total = sum(event.size_bytes for event in found)
    got = f"no {direction.word}"
    if found:
        got = f"{count(len(found), direction.word)} of {exact_size(total)} in all, {where(found)}"
    return Finding(
        expected=f"{in_words(low, high, direction.word)} in a call",
        got=f"{got}{run.which(call)}",
        line=_line_beyond(found, direction, high) or run.line_of(call),
        advice="Create data where it is used, and move it once, whole.",
    )


def _wrong_asynchronous(
    run: Run, call: Call, direction: _Direction, amount: Amount | None, name: str
) -> Finding | None:
    if amount is None:
        return None
    low, high = parse_bounds(amount, call, run.machine, name)
    found = [event for event in call.trace if direction.holds(event)]
    free = [event for event in found if event.asynchronous]
    if low <= len(free) <= high:
        return None
    others = [event for event in found if not event.asynchronous] if len(free) < low else free
    got = f"{len(free) or 'none'} of {len(found)} {'is' if len(free) < 2 else 'are'}" if found else "no copies"
    which = f"; {'the host waits' if len(free) < low else 'those are'} {where(others)}" if others else ""
    return Finding(
        expected=f"{in_words(low, high, f'asynchronous {direction.word}')} in a call",
        got=f"{got}{which}{run.which(call)}",
        line=line_with_most(others) or run.line_of(call),
        advice="Both are needed: page-locked memory (`pin_memory()`), and `non_blocking=True` at the copy.",
    )


def _wrong_bytes(run: Run, call: Call, direction: _Direction, amount: Amount | None, name: str) -> Finding | None:
    if amount is None:
        return None
    low, high = parse_bounds(amount, call, run.machine, name)
    found = [event for event in call.trace if direction.holds(event)]
    total = sum(event.size_bytes for event in found)
    if low <= total <= high:
        return None
    got = f"{exact_size(total)}, {where(found)}" if found else f"no {direction.word}"
    wanted = exact_size(low) if low == high else f"{low:,} to {exact_size(high)}"
    return Finding(
        expected=f"{wanted} by {direction.word} in a call",
        got=f"{got}{run.which(call)}",
        line=_line_beyond_bytes(found, direction, high) or run.line_of(call),
        advice="Move the smaller thing, in the smaller dtype.",
    )


def _line_beyond(found: Sequence[Event], direction: _Direction, high: int) -> int | None:
    """The line of the copy that is one too many; where there are too few, the line with most.

    What a call needs is brought to the device first, so that the first copies are those that are allowed. Its result
    comes to the host last, so that there it is the last ones.
    """
    if len(found) <= high:
        return line_with_most(found)
    return line_of(found, len(found) - high - 1 if direction is TO_HOST else high)


def _line_beyond_bytes(found: Sequence[Event], direction: _Direction, high: int) -> int | None:
    """The same for bytes: the copy with which there are too many."""
    order = range(len(found) - 1, -1, -1) if direction is TO_HOST else range(len(found))
    left = high
    for number in order:
        left -= found[number].size_bytes
        if left < 0:
            return line_of(found, number)
    return line_with_most(found)
