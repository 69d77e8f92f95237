"""Differences between two recorded calls, as numbers and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from gpututor.trace.arrays import TraceArrays, merged
from gpututor.trace.events import Kind
from gpututor.trace.formatting import duration, same_time, size

SAME, AS_LONG = "the same", "as long"
NO_DIFFERENCE = "no difference that counts in what the devices did"
_ROWS = (
    ("kernels", "kernels", "kernel"),
    ("  their time", "kernel_time", "time"),
    ("copies to device", "to_device", "copy"),
    ("  their bytes", "to_device_bytes", "bytes"),
    ("copies to host", "to_host", "copy"),
    ("  their bytes", "to_host_bytes", "bytes"),
    ("copies between", "between", "copy"),
    ("  their bytes", "between_bytes", "bytes"),
    ("waits of the host", "waits", "wait"),
    ("  their time", "wait_time", "time"),
    ("device busy", "busy", "busy"),
    ("peak of memory", "peak_bytes", "bytes"),
    ("hazards", "hazards", "hazard"),
)
"""Name, field of `Amounts`, and the unit or a noun."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Work of the devices in one call, of all processes together. Times are nanoseconds, sizes bytes."""

    elapsed: int
    """0 without times."""
    peak_bytes: int
    kernels: int
    kernel_time: int
    to_device: int
    to_device_bytes: int
    to_host: int
    to_host_bytes: int
    between: int
    """Copies from device to device."""
    between_bytes: int
    waits: int
    wait_time: int
    busy: int
    """Time with work on any device."""
    hazards: int


@dataclass(frozen=True, slots=True)
class Difference:
    """One amount of both calls."""

    name: str
    left: str
    right: str
    words: str
    """The left call compared with the right: `3 copies fewer`, `the same`, for times `as long`."""
    better: int
    """1 if the left call has less, -1 if it has more, 0 if both look the same."""


def amounts_of(processes: Sequence[TraceArrays], elapsed: int, peak_bytes: int) -> Amounts:
    """Add up the traces of one call, one of each process."""
    sums: Counter[str] = Counter()
    for rows in processes:
        sums.update(_of_process(rows))
    names = [field.name for field in fields(Amounts)][2:]
    return Amounts(elapsed, peak_bytes, **{name: sums[name] for name in names})


def _of_process(rows: TraceArrays) -> dict[str, int]:
    kernels = rows.of(Kind.KERNEL, Kind.COLLECTIVE) & ~rows.on("cpu")
    copies, waits = rows.of(Kind.TRANSFER), rows.of(Kind.SYNCHRONISE)
    cpu = rows.trace.devices.get("cpu", -1)
    up, down = copies & (rows.source == cpu), copies & (rows.target == cpu)
    sums = {
        "kernels": kernels.sum(),
        "kernel_time": rows.duration[kernels].sum(),
        "waits": waits.sum(),
        "wait_time": rows.duration[waits].sum(),
        "busy": merged(rows.intervals(kernels | copies)).total,
        "hazards": rows.of(Kind.HAZARD).sum(),
    }
    for name, mask in (("to_device", up), ("to_host", down), ("between", copies & ~up & ~down)):
        sums |= {name: mask.sum(), f"{name}_bytes": rows.size[mask].sum()}
    return {name: int(value) for name, value in sums.items()}


def differences(left: Amounts, right: Amounts) -> tuple[Difference, ...]:
    """Compare each amount that either of them has."""
    rows = []
    if left.elapsed and right.elapsed:
        time, ratio = _difference("time", "time", left.elapsed, right.elapsed), ratio_words(left.elapsed, right.elapsed)
        words = time.words if ratio == AS_LONG else f"{ratio}, {time.words}"
        rows.append(Difference("time", time.left, time.right, words, time.better))
    for name, field, unit in _ROWS:
        ours, theirs = getattr(left, field), getattr(right, field)
        if unit == "busy" and (ours or theirs):
            # Neither less nor more is better: the same work may take a shorter time.
            here, there = _percent(left), _percent(right)
            words = f"{here} of the time, not {there}" if here != there else f"{here} of the time in both"
            rows.append(Difference(name, duration(ours), duration(theirs), words, 0))
        elif ours or theirs:
            rows.append(_difference(name, unit, ours, theirs))
    return tuple(rows)


def _difference(name: str, unit: str, left: int, right: int) -> Difference:
    shown = {"time": duration, "bytes": size}.get(unit, "{:,}".format)
    ours, theirs = shown(left), shown(right)
    is_same = same_time(left, right) if unit == "time" else ours == theirs
    if is_same:
        words = AS_LONG if unit == "time" else SAME
    elif unit in ("time", "bytes"):
        words = f"{shown(abs(left - right))} {'less' if left < right else 'more'}"
    else:
        words = counted(unit, left, right)
    return Difference(name, ours, theirs, words, 0 if is_same else 1 if left < right else -1)


def counted(noun: str, left: int, right: int) -> str:
    """Return text like `3 copies fewer`, of the left compared with the right."""
    number = abs(left - right)
    plural = {"copy": "copies"}.get(noun, f"{noun}s")
    return f"{number:,} {noun if number == 1 else plural} {'fewer' if left < right else 'more'}"


def ratio_words(left: int, right: int) -> str:
    """Return text like `2.5 × as fast` or `1.3 × as long`; `as long` if the ratio is 1."""
    ratio = f"{max(left, right) / max(min(left, right), 1):.3g}"
    if ratio == "1" or same_time(left, right):
        return AS_LONG
    return f"{ratio} × as {'fast' if left < right else 'long'}"


def in_one_sentence(differences: Iterable[Difference]) -> str:
    """Return text like `11.4 × as fast, 3,118 kernels fewer`, without bytes and times of the counts."""
    words = [
        # There are several kinds of copies, which their names distinguish.
        difference.words.replace("copies", difference.name).replace("copy", difference.name.replace("copies", "copy"))
        for difference in differences
        if difference.better and not difference.name.startswith("  ") and difference.name != "peak of memory"
    ]
    return ", ".join(words) or NO_DIFFERENCE


def _percent(amounts: Amounts) -> str:
    return f"{100 * amounts.busy / amounts.elapsed:.0f} %" if amounts.elapsed else "-"
