"""Transfers and waits: copies between devices, bytes, and host synchronizations with their causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpututor.checks.bounds import Amount, describe_lines, format_bounds, line_with_most, parse_bounds
from gpututor.checks.launches import launches_of
from gpututor.checks.model import Applies, Call, Check, Finding, Run, count, first_finding, in_each_call
from gpututor.checks.python_syntax import UNREADABLE, Use, uses_of
from gpututor.trace.events import Event, Kind
from gpututor.trace.formatting import exact_size

WHY_TRANSFERS = "A copy over the bus is far slower than work on the device. Each one should be needed."
WHY_SYNCS = "While the host waits for the device, it launches nothing, and the device soon runs out of work."
_NUMBER_BYTES = 8
"""Bytes of the largest real number."""
_FUNCTIONS = ("print", "float", "int", "bool")
_COPIES = ("cpu", "numpy", "tolist", "to", "copy_", "print")
_LIKELY = {
    "aten::_local_scalar_dense": ("item", "tolist", "float", "int", "bool", "print"),
    "aten::_to_copy": _COPIES,
    "aten::copy_": _COPIES,
}
"""Calls that are likely to cause a wait, by the operator that waits."""
_WORDS = {
    "aten::_local_scalar_dense": "reading a value of the device",
    "aten::_to_copy": "a copy to the host",
    "aten::copy_": "a copy to the host",
    "cudaFree": "returning memory to the driver",
}


def sync_causes(waits: Sequence[Event], source: str, most: int = 4) -> str:
    """Describe the lines with most waits, each with its cause, in the file's order."""
    uses = _uses(source)
    counted = Counter((event.line, event.name) for event in waits if event.line is not None)
    chosen = sorted(counted.most_common(most))
    words = [
        f"{_cause(name, line, uses)} at line {line}" + (f", {times:,} times" if times > 1 else "")
        for (line, name), times in chosen
    ]
    others = len(waits) - sum(times for _, times in chosen)
    return "; ".join([*words, *([f"{others:,} elsewhere" if words else "outside your file"] if others else [])])


def _uses(source: str) -> list[Use]:
    try:
        return uses_of(source, "")
    except UNREADABLE:
        return []


def _cause(name: str, line: int | None, uses: Sequence[Use]) -> str:
    """Return the call in this line that probably caused the wait; if there is none, describe the operator."""
    here = {use.names[0].rpartition(".")[2]: use for use in uses if use.line == line and use.kind == "call"}
    for likely in _LIKELY.get(name, ()):
        if likely in here:
            is_method = len(here[likely].names[0]) > len(likely) or likely not in _FUNCTIONS
            return f"`{'.' if is_method else ''}{likely}()`"
    if name in _WORDS:
        return _WORDS[name]
    return f"`{name.removeprefix('aten::')}`" if name.startswith("aten::") else f"`{name}()`"


@dataclass(frozen=True)
class _Direction:
    word: str
    holds: Callable[[Event], bool]

    def copies(self, call: Call) -> list[Event]:
        return [event for event in call.trace if self.holds(event)]


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
    """Check the copies in each call, by direction, as a count and in bytes: exactly, as (low, high), or by a function.

    An asynchronous copy, from or to pinned memory with `non_blocking=True`, does not make the host wait.
    """
    rules = [
        (_wrong_count, TO_DEVICE, to_device),
        (_wrong_count, TO_HOST, to_host),
        (_wrong_count, BETWEEN, between),
        (_wrong_asynchronous, TO_DEVICE, asynchronous_to_device),
        (_wrong_asynchronous, TO_HOST, asynchronous_to_host),
        (_wrong_bytes, TO_DEVICE, bytes_to_device),
        (_wrong_bytes, TO_HOST, bytes_to_host),
        (_wrong_bytes, BETWEEN, bytes_between),
    ]

    def find(run: Run, call: Call) -> Finding | None:
        return first_finding(
            wrong(run, call, direction, *parse_bounds(amount, call, run.machine, name))
            for wrong, direction, amount in rules
            if amount is not None
        )

    sentence = "Only the copies that are needed are made"
    return Check(name, lambda _: sentence, in_each_call(find), (), why, advice, on)


def syncs(
    *,
    at_most: Amount = 0,
    loop_of: str = "",
    name: str = "syncs",
    why: str = WHY_SYNCS,
    advice: str = "",
    on: Applies = "gpu",
) -> Check:
    """Check the number of times that the host waits for a device in each call.

    `loop_of`: a pattern for the names of kernels, such as `aten::*mm`. The check counts only the waits of each process
    between its first and its last launch of a matching kernel. If no kernel matches, all waits count.
    """

    def find(run: Run, call: Call) -> Finding | None:
        _, high = parse_bounds(at_most, call, run.machine, name)
        waits = [wait for process in call.ranks or (call,) for wait in _waits(process, loop_of)]
        if len(waits) <= high:
            return None
        amount = f"{'at most ' if high else ''}{count(high, 'wait')}"
        return Finding(
            expected=f"{amount} for the device in the loop" if loop_of else f"{amount} for the device in a call",
            got=f"{count(len(waits), 'wait')}: {sync_causes(waits, run.source)}{run.which(call)}",
            line=line_with_most(waits),
            advice="Keep results on the device; bring one value to the host, once, at the end.",
        )

    sentence = "No unnecessary waits for the device"
    return Check(name, lambda _: sentence, in_each_call(find), (), why, advice, on)


def _waits(call: Call, loop_of: str) -> list[Event]:
    """Return the waits for a device; with `loop_of`, the waits between kernels of that name, if there are any."""
    waits = [event for event in call.trace if event.kind is Kind.SYNCHRONISE]
    work = launches_of(call, loop_of) if loop_of else []
    if not work:
        return waits
    return [wait for wait in waits if work[0].launched <= wait.launched <= work[-1].launched]


def _wrong_count(run: Run, call: Call, direction: _Direction, low: int, high: int) -> Finding | None:
    copies = direction.copies(call)
    if low <= len(copies) <= high:
        return None
    got = f"no {direction.word}"
    if copies:
        total = sum(event.size_bytes for event in copies)
        got = f"{count(len(copies), direction.word)} of {exact_size(total)} in all, {describe_lines(copies)}"
        if direction is TO_DEVICE and _are_made_numbers(copies, run.source):
            got += ": `torch.tensor` makes a number on the host and copies it, but `torch.full` makes it on the device"
    expected, line = f"{format_bounds(low, high, direction.word)} in a call", _line_beyond(copies, direction, high)
    return run.finding(call, expected, got, line, "Create data where it is used, or move it once, as a whole.")


def _are_made_numbers(copies: Sequence[Event], source: str) -> bool:
    """Return True if all copies are of single numbers, and from lines that call `torch.tensor`."""
    if any(copy.size_bytes > _NUMBER_BYTES for copy in copies):
        return False
    calls = {use.line for use in _uses(source) if use.kind == "call" and use.names[0].rpartition(".")[2] == "tensor"}
    return all(copy.line in calls for copy in copies)


def _wrong_asynchronous(run: Run, call: Call, direction: _Direction, low: int, high: int) -> Finding | None:
    copies = direction.copies(call)
    free = [event for event in copies if event.asynchronous]
    if low <= len(free) <= high:
        return None
    others = [event for event in copies if not event.asynchronous] if len(free) < low else free
    got = f"{len(free) or 'none'} of {len(copies)} {'is' if len(free) < 2 else 'are'}" if copies else "no copies"
    which = f"; {'the host waits' if len(free) < low else 'those are'} {describe_lines(others)}" if others else ""
    expected = f"{format_bounds(low, high, f'asynchronous {direction.word}')} in a call"
    advice = "Both are needed: page-locked memory (`pin_memory()`), and `non_blocking=True` at the copy."
    return run.finding(call, expected, got + which, line_with_most(others), advice)


def _wrong_bytes(run: Run, call: Call, direction: _Direction, low: int, high: int) -> Finding | None:
    copies = direction.copies(call)
    total = sum(event.size_bytes for event in copies)
    if low <= total <= high:
        return None
    got = f"{exact_size(total)}, {describe_lines(copies)}" if copies else f"no {direction.word}"
    wanted = exact_size(low) if low == high else f"{low:,} to {exact_size(high)}"
    line = _line_beyond(copies, direction, high, lambda event: event.size_bytes)
    expected, advice = f"{wanted} by {direction.word} in a call", "Move the smaller tensor, in the smaller dtype."
    return run.finding(call, expected, got, line, advice)


def _line_beyond(
    copies: Sequence[Event], direction: _Direction, high: int, weight: Callable[[Event], int] = lambda _: 1
) -> int | None:
    """Return the line of the copy that exceeds `high`; if none does, the line with most copies.

    A call copies its inputs to the device first, so the first copies to the device are the allowed copies. It copies
    its result to the host last, so the last copies to the host are the allowed copies.
    """
    left = high
    for copy in reversed(copies) if direction is TO_HOST else copies:
        left -= weight(copy)
        if left < 0:
            return copy.line or line_with_most(copies)
    return line_with_most(copies)
