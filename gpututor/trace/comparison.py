"""Differences between two recorded calls: amounts of both, and each difference in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpututor.trace.arrays import TraceArrays, merged
from gpututor.trace.events import Kind
from gpututor.trace.formatting import duration, same_time, size

SAME, AS_LONG = "the same", "as long"
NO_DIFFERENCE = "no significant difference in the work of the devices"
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
"""(name, key of `Amounts`, unit or counted noun) of each amount."""

Amounts = Counter[str]
"""Work of the devices in one call, in all its processes together, by the keys of `_ROWS`.

Times are in nanoseconds, sizes in bytes. `elapsed` is the time of the call, 0 without times. `busy` is the time in
which any device worked. `between` counts copies from device to device.
"""


@dataclass(frozen=True, slots=True)
class AmountDifference:
    """An amount of both calls."""

    name: str
    left: str
    right: str
    words: str
    """The left call compared with the right call: `3 copies fewer`, `the same`; for times `as long`."""
    better: int
    """1 if the left call has less, -1 if it has more, 0 if both read the same."""


def amounts_of(processes: Sequence[TraceArrays], elapsed: int, peak_bytes: int) -> Amounts:
    """Add up the traces of the processes of one call."""
    sums = Counter(elapsed=elapsed, peak_bytes=peak_bytes)
    for rows in processes:
        sums.update(_amounts_of_process(rows))
    return sums


def _amounts_of_process(rows: TraceArrays) -> dict[str, int]:
    kernels = rows.of(Kind.KERNEL, Kind.COLLECTIVE) & ~rows.on("cpu")
    copies, waits = rows.of(Kind.TRANSFER), rows.of(Kind.SYNCHRONISE)
    sums = {
        "kernels": kernels.sum(),
        "kernel_time": rows.duration[kernels].sum(),
        "waits": waits.sum(),
        "wait_time": rows.duration[waits].sum(),
        "busy": merged(rows.intervals(kernels | copies)).total,
        "hazards": rows.of(Kind.HAZARD).sum(),
    }
    for name, mask in (("to_device", rows.from_host), ("to_host", rows.to_host), ("between", rows.between)):
        sums |= {name: mask.sum(), f"{name}_bytes": rows.size[mask].sum()}
    return {name: int(value) for name, value in sums.items()}


def differences(left: Amounts, right: Amounts) -> tuple[AmountDifference, ...]:
    """Compare each amount that is not 0 in both."""
    rows = []
    times = left["elapsed"], right["elapsed"]
    if all(times):
        time, ratio = _difference("time", "time", *times), ratio_words(*times)
        rows.append(time if ratio == AS_LONG else replace(time, words=f"{ratio}, {time.words}"))
    for name, key, unit in _ROWS:
        ours, theirs = left[key], right[key]
        if unit == "busy" and (ours or theirs):
            # Neither less nor more is better: the same work may take less time.
            here, there = _percent(left), _percent(right)
            words = f"{here} of the time, not {there}" if here != there else f"{here} of the time in both"
            rows.append(AmountDifference(name, duration(ours), duration(theirs), words, 0))
        elif ours or theirs:
            rows.append(_difference(name, unit, ours, theirs))
    return tuple(rows)


def _difference(name: str, unit: str, left: int, right: int) -> AmountDifference:
    shown = {"time": duration, "bytes": size}.get(unit, "{:,}".format)
    ours, theirs = shown(left), shown(right)
    is_same = same_time(left, right) if unit == "time" else ours == theirs
    if is_same:
        words = AS_LONG if unit == "time" else SAME
    elif unit in ("time", "bytes"):
        words = f"{shown(abs(left - right))} {'less' if left < right else 'more'}"
    else:
        words = counted(unit, left, right)
    return AmountDifference(name, ours, theirs, words, 0 if is_same else 1 if left < right else -1)


def counted(noun: str, left: int, right: int) -> str:
    """Describe the difference of two counts: `3 copies fewer`."""
    number = abs(left - right)
    plural = {"copy": "copies"}.get(noun, f"{noun}s")
    return f"{number:,} {noun if number == 1 else plural} {'fewer' if left < right else 'more'}"


def ratio_words(left: int, right: int) -> str:
    """Return `2.5 × as fast` or `1.3 × as long`; `as long` if the ratio would read 1."""
    ratio = f"{max(left, right) / max(min(left, right), 1):.3g}"
    if ratio == "1" or same_time(left, right):
        return AS_LONG
    return f"{ratio} × as {'fast' if left < right else 'long'}"


def in_one_sentence(differences: Iterable[AmountDifference]) -> str:
    """List the counts that differ: `11.4 × as fast, 3,118 kernels fewer, 24 waits fewer`."""
    words = [
        # There are several kinds of copies; their names contain the kind.
        difference.words.replace("copies", difference.name).replace("copy", difference.name.replace("copies", "copy"))
        for difference in differences
        if difference.better and not difference.name.startswith("  ") and difference.name != "peak of memory"
    ]
    return ", ".join(words) or NO_DIFFERENCE


def _percent(amounts: Amounts) -> str:
    return f"{100 * amounts['busy'] / amounts['elapsed']:.0f} %" if amounts["elapsed"] else "-"
