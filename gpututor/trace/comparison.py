"""What two recorded calls differ in: the same amounts of both, and the difference in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from gpututor.trace.events import Kind
from gpututor.trace.rows import Rows, merged
from gpututor.trace.units import duration, same_time, size


@dataclass(frozen=True, slots=True)
class Amounts:
    """What the devices did in one call, in all its processes together. Times are nanoseconds, sizes bytes."""

    elapsed: int
    """0 where there are no times."""
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
    """In which some device worked."""
    hazards: int


_SUMMED = [one.name for one in fields(Amounts) if one.name not in ("elapsed", "peak_bytes")]


@dataclass(frozen=True, slots=True)
class Difference:
    """One amount of both."""

    name: str
    left: str
    right: str
    words: str
    """`3 copies fewer`, of the left one against the right one; `the same`, of times `as long`."""
    better: int
    """1 where the left one has less, -1 where it has more; 0 where they read the same."""


def amounts_of(processes: Sequence[Rows], elapsed: int, peak_bytes: int) -> Amounts:
    """Of one call; a trace for each process."""
    sums: Counter[str] = Counter()
    for rows in processes:
        sums.update(_of_process(rows))
    return Amounts(elapsed, peak_bytes, **{name: sums[name] for name in _SUMMED})


def _of_process(rows: Rows) -> dict[str, int]:
    host = rows.on("cpu")
    kernels = rows.of(Kind.KERNEL, Kind.COLLECTIVE) & ~host
    copies, waits = rows.of(Kind.TRANSFER), rows.of(Kind.SYNCHRONISE)
    cpu = rows.trace.devices.get("cpu", -1)
    up, down = copies & (rows.source == cpu), copies & (rows.target == cpu)
    found = {
        "kernels": kernels.sum(),
        "kernel_time": rows.duration[kernels].sum(),
        "waits": waits.sum(),
        "wait_time": rows.duration[waits].sum(),
        "busy": merged(rows.intervals(kernels | copies)).total,
        "hazards": rows.of(Kind.HAZARD).sum(),
    }
    for name, mask in (("to_device", up), ("to_host", down), ("between", copies & ~up & ~down)):
        found |= {name: mask.sum(), f"{name}_bytes": rows.size[mask].sum()}
    return {name: int(value) for name, value in found.items()}


def differences(left: Amounts, right: Amounts) -> tuple[Difference, ...]:
    """One for each amount that either of them has."""
    return tuple(_differences(left, right))


def _differences(left: Amounts, right: Amounts) -> Iterator[Difference]:
    if left.elapsed and right.elapsed:
        yield _ratio("time", left.elapsed, right.elapsed)
    yield from _counted("kernels", "kernel", left.kernels, right.kernels)
    if left.kernel_time or right.kernel_time:
        yield _time("  their time", left.kernel_time, right.kernel_time)
    for name, ours, theirs, our_bytes, their_bytes in (
        ("copies to device", left.to_device, right.to_device, left.to_device_bytes, right.to_device_bytes),
        ("copies to host", left.to_host, right.to_host, left.to_host_bytes, right.to_host_bytes),
        ("copies between", left.between, right.between, left.between_bytes, right.between_bytes),
    ):
        yield from _counted(name, "copy", ours, theirs)
        if ours or theirs:
            yield _bytes("  their bytes", our_bytes, their_bytes)
    yield from _counted("waits of the host", "wait", left.waits, right.waits)
    if left.wait_time or right.wait_time:
        yield _time("  their time", left.wait_time, right.wait_time)
    if left.busy or right.busy:
        # Less is no merit here, and more is none either: the same work may be done in a shorter time.
        here, there = _percent(left), _percent(right)
        words = f"{here} of the time, not {there}" if here != there else f"{here} of the time in both"
        yield Difference("device busy", duration(left.busy), duration(right.busy), words, 0)
    if left.peak_bytes or right.peak_bytes:
        yield _bytes("peak of memory", left.peak_bytes, right.peak_bytes)
    yield from _counted("hazards", "hazard", left.hazards, right.hazards)


def _percent(amounts: Amounts) -> str:
    return f"{100 * amounts.busy / amounts.elapsed:.0f} %" if amounts.elapsed else "-"


def _counted(name: str, one: str, left: int, right: int) -> Iterator[Difference]:
    if not left and not right:
        return
    number = abs(left - right)
    plural = {"copy": "copies"}.get(one, f"{one}s")
    words = f"{number:,} {one if number == 1 else plural} {'fewer' if left < right else 'more'}" if number else SAME
    yield Difference(name, f"{left:,}", f"{right:,}", words, _sign(left, right))


def _time(name: str, left: int, right: int) -> Difference:
    return _times(name, left, right, f"{duration(abs(left - right))} {'less' if left < right else 'more'}")


def _ratio(name: str, left: int, right: int) -> Difference:
    """A time and how many times the other it is."""
    more = _time(name, left, right).words
    ratio = ratio_words(left, right)
    return _times(name, left, right, more if ratio == AS_LONG else f"{ratio}, {more}")


def _times(name: str, left: int, right: int, words: str) -> Difference:
    """With `words`, unless both take as long."""
    is_same = same_time(left, right)
    return Difference(
        name, duration(left), duration(right), AS_LONG if is_same else words, 0 if is_same else _sign(left, right)
    )


def _bytes(name: str, left: int, right: int) -> Difference:
    ours, theirs = size(left), size(right)
    words = f"{size(abs(left - right))} {'less' if left < right else 'more'}" if ours != theirs else SAME
    return Difference(name, ours, theirs, words, _sign(left, right) if ours != theirs else 0)


def ratio_words(left: int, right: int) -> str:
    """`2.5 × as fast`, `1.3 × as long`; `as long` where the ratio reads 1."""
    ratio = f"{max(left, right) / max(min(left, right), 1):.3g}"
    if ratio == "1" or same_time(left, right):
        return AS_LONG
    return f"{ratio} × as {'fast' if left < right else 'long'}"


def _sign(left: int, right: int) -> int:
    return (left < right) - (left > right)


SAME, AS_LONG = "the same", "as long"


NO_DIFFERENCE = "no difference that counts in what the devices did"


def in_one_sentence(found: Iterable[Difference]) -> str:
    """`11.4 × as fast, 3,118 kernels fewer, 24 waits fewer`: the counts that differ, without their bytes and times."""
    told = [
        # Of the copies there are several kinds, which their names tell apart.
        one.words.replace("copies", one.name).replace("copy", one.name.replace("copies", "copy"))
        for one in found
        if one.better and not one.name.startswith("  ") and one.name != "peak of memory"
    ]
    return ", ".join(told) or NO_DIFFERENCE
