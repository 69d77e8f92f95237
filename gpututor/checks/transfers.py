"""Transfers and waits: how often a call copies between devices, how many bytes, and how often the host waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpututor.checks.core import Applies, Call, Check, Finding, Machine, Run, count
from gpututor.trace.events import Event, Kind, lines_of

Amount = int | tuple[int, int] | Callable[[dict[str, Any], Machine], int | tuple[int, int]]

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
    name: str = "transfers",
    why: str = WHY_TRANSFERS,
    advice: str = "",
    on: Applies = "gpu",
) -> Check:
    """Copies in each call, by direction, as a count and in bytes: exactly, as (low, high), or by a function."""
    counts = [(TO_DEVICE, to_device), (TO_HOST, to_host), (BETWEEN, between)]
    sizes = [(TO_DEVICE, bytes_to_device), (TO_HOST, bytes_to_host), (BETWEEN, bytes_between)]

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            for direction, amount in counts:
                finding = _wrong_count(run, call, direction, amount)
                if finding is not None:
                    return finding
            for direction, amount in sizes:
                finding = _wrong_bytes(run, call, direction, amount)
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
            _, high = _bounds(at_most, call, run.machine)
            waits = [event for event in call.trace if event.kind is Kind.SYNCHRONISE]
            if len(waits) > high:
                return Finding(
                    expected=f"at most {count(high, 'wait')} for the device in a call",
                    got=f"{count(len(waits), 'wait')}, {_where(waits)}{run.which(call)}",
                    line=_line(waits),
                    advice="Keep results on the device; bring one value to the host, once, at the end.",
                )
        return None

    return Check(name, lambda _: "The host waits for the device no more than it must", find, (), why, advice, on)


def _wrong_count(run: Run, call: Call, direction: _Direction, amount: Amount | None) -> Finding | None:
    if amount is None:
        return None
    low, high = _bounds(amount, call, run.machine)
    found = [event for event in call.trace if direction.holds(event)]
    if low <= len(found) <= high:
        return None
    total = sum(event.size_bytes for event in found)
    got = f"{count(len(found), direction.word)} of {total:,} bytes in all, {_where(found)}" if found else "none"
    return Finding(
        expected=f"{_range(low, high, direction.word)} in a call",
        got=f"{got}{run.which(call)}",
        line=_line(found) or run.line_of(call),
        advice="Create data where it is used, and move it once, whole.",
    )


def _wrong_bytes(run: Run, call: Call, direction: _Direction, amount: Amount | None) -> Finding | None:
    if amount is None:
        return None
    low, high = _bounds(amount, call, run.machine)
    found = [event for event in call.trace if direction.holds(event)]
    total = sum(event.size_bytes for event in found)
    if low <= total <= high:
        return None
    wanted = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return Finding(
        expected=f"{wanted} bytes by {direction.word} in a call",
        got=f"{total:,} bytes, {_where(found)}{run.which(call)}" if found else f"none{run.which(call)}",
        line=_line(found) or run.line_of(call),
        advice="Move the smaller thing, in the smaller dtype.",
    )


def _bounds(amount: Amount, call: Call, machine: Machine) -> tuple[int, int]:
    chosen = amount(call.drawn, machine) if callable(amount) else amount
    return chosen if isinstance(chosen, tuple) else (chosen, chosen)


def _range(low: int, high: int, word: str) -> str:
    if low == high:
        return count(low, word)
    return f"{low} to {count(high, word)}"


def _where(events: list[Event]) -> str:
    """`at line 7 (3 times) and line 9`."""
    lines = [f"line {line}" + (f" ({times} times)" if times > 1 else "") for line, times in sorted(lines_of(events))]
    return f"at {' and '.join(lines[:4])}" if lines else "outside your file"


def _line(events: list[Event]) -> int | None:
    """The line that causes most of them."""
    lines = lines_of(events)
    return lines[0][0] if lines else None
