"""The rules behind advice: each looks at one device's rows, and gives what it finds with the time that it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gpututor.trace.advice import Advice, Rates, Seen, found, together
from gpututor.trace.copy_rules import (
    REPEATED,
    blocking_copies,
    copies_beside_nothing,
    made_on_the_cpu,
    many_small_copies,
    same_bytes_again,
    work_on_the_cpu,
)
from gpututor.trace.events import Kind
from gpututor.trace.rows import Intervals, Mask, Numbers, Rows, common, merged, within
from gpututor.trace.units import duration

Rule = Callable[[Rows, str, Rates | None], Iterator[Advice]]
MANY_KERNELS = 100
LAUNCH_GAP = 50_000
"""Nanoseconds: a device that waits no longer than that for its next kernel waits for a launch, and for nothing else."""
MULTIPLIES = ("mm", "addmm", "bmm", "baddbmm", "linear", "convolution", "conv")
_WAIT_WORDS = {
    "aten::_local_scalar_dense": (
        "reads a value of the device (`.item()`, `float()`, `if`)",
        "Add up on the device, and read the value once, after the loop or every so many steps.",
    ),
    "print": ("prints a tensor of the device", "Print less often, or print once, after the loop."),
    "aten::_to_copy": (
        "copies to the host and waits",
        "Keep the results on the device, and copy them together, after the loop.",
    ),
}
_DATA_SHAPES = frozenset(
    f"aten::{one}"
    for one in (
        *("index", "index_put", "index_put_", "masked_select", "nonzero", "repeat_interleave"),
        *("_unique2", "unique_consecutive", "unique_dim", "bincount"),
    )
)
"""Operators whose result is as large as the values say: the host waits for that size."""
_SHAPE_WORDS = (
    "waits for how many elements there are",
    "Keep the shape: `torch.where` with three arguments, or multiply by the mask; or find the indices once, and keep"
    " them.",
)
_OTHER_WAIT = (
    "waits for the device",
    "Wait once, after the loop, or not at all: streams keep their order by themselves.",
)


def waits_in_loops(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
    """The host waits again and again at one line. Without it, host and device would work at the same time: what is
    won is the wait, and what the host needs to start a reading, as far as the device stood idle between the first and
    the last of them."""
    waits = rows.on(device) & rows.of(Kind.SYNCHRONISE) & rows.timed
    busy = merged(rows.intervals(_work(rows, device)))
    own = _own_time(rows, device, waits)

    def gain_of(group: Numbers) -> int:
        begin, end = int((rows.start[group] - own[group]).min()), int(rows.end[group].max())
        return min(int(rows.duration[group].sum() + own[group].sum()), end - begin - within(busy, begin, end).total)

    def seen() -> Iterator[Seen]:
        for (number,), group in rows.groups(waits, rows.place):
            if group.size < REPEATED:
                continue
            place, name = rows.place_of(number), rows.names[int(rows.name[group[0]])]
            words, what_to_do = _SHAPE_WORDS if name in _DATA_SHAPES else _WAIT_WORDS.get(name, _OTHER_WAIT)
            sentence = f"{place} {words}: {group.size:,} waits, {duration(int(rows.duration[group].sum()))} in all."
            yield Seen(place, group, sentence, what_to_do)

    yield from together(rows, "waits in a loop", seen(), gain_of)


def _own_time(rows: Rows, device: str, waits: Mask) -> Numbers:
    """For each wait that reads a value: how long the host needed from its launch before to the beginning of the wait,
    in which the device, once it is done, stands idle. 0 for other rows."""
    own = np.zeros(rows.kind.size, dtype=np.int64)
    reads = waits & np.isin(rows.name, [number for number, name in enumerate(rows.names) if name in _WAIT_WORDS])
    launches = np.unique(rows.launched[_work(rows, device) & (rows.launched >= 0)])
    ends = np.unique(np.concatenate([launches, rows.end[rows.of(Kind.SYNCHRONISE) & rows.timed]]))
    # The copy of the reading itself begins with the wait.
    at = np.searchsorted(ends, rows.start[reads], side="left")
    before = np.where(at > 0, ends[np.maximum(at - 1, 0)] if ends.size else 0, rows.start[reads])
    gap = rows.start[reads] - before
    own[reads] = np.where(gap <= LAUNCH_GAP, gap, 0)
    return own


def launch_bound(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
    """The device waits for launches: gaps before kernels that start as soon as they are launched, without those in
    which the host waited or computed."""
    ours = rows.on(device) & rows.of(Kind.KERNEL) & rows.timed
    if int(ours.sum()) < MANY_KERNELS:
        return
    work = np.flatnonzero(_work(rows, device) & rows.timed)
    work = work[np.argsort(rows.start[work], kind="stable")]
    reached = np.append(rows.start[work[:1]], np.maximum.accumulate(rows.end[work])[:-1])
    gap = rows.start[work] - reached
    at_once = rows.start[work] - rows.launched[work] <= 1_000
    # The first launch after a wait is what the wait costs.
    waits = np.sort(rows.end[rows.on(device) & rows.of(Kind.SYNCHRONISE) & rows.timed])
    after_a_wait = np.searchsorted(waits, rows.start[work]) > np.searchsorted(waits, reached)
    picked = np.flatnonzero((gap > 0) & (gap <= LAUNCH_GAP) & at_once & ~after_a_wait & ours[work])
    if picked.size < MANY_KERNELS // 2:
        return
    gaps = Intervals(reached[picked], rows.start[work][picked])
    host = rows.of(Kind.SYNCHRONISE) | (rows.on("cpu") & rows.of(Kind.KERNEL))
    lost = gaps.total - common(gaps, merged(rows.intervals(host)))
    places, at = np.unique(rows.place[work[picked]], return_inverse=True)
    place = rows.place_of(int(places[np.argmax(np.bincount(at, weights=gap[picked]))]))
    mean = int(rows.duration[work[picked]].mean())
    sentence = (
        f"{device} waits for the host to launch {picked.size:,} of {int(ours.sum()):,} kernels, which take"
        f" {duration(mean)} each; most of that at {place}."
    )
    names = [rows.names[number] for number in np.unique(rows.name[work[picked]])]
    optimisers = "fused optimisers" if any("_foreach_" in name for name in names) else "`foreach` and fused optimisers"
    operators = f"fewer and fused operators (`torch.compile`, {optimisers})"
    what_to_do = f"Give each kernel more to do: larger batches, {operators}, or replay the step as a CUDA graph."
    if _waits_between(rows, device, int(gaps.start[0]), int(gaps.end[-1])):
        # A graph cannot hold a wait.
        what_to_do = f"Give each kernel more to do: larger batches, {operators}, and do not wait for it in the loop."
    yield found(rows, "launches", sentence, place, max(lost, 0), what_to_do)


def _waits_between(rows: Rows, device: str, begin: int, end: int) -> bool:
    """Whether the host waits again and again at one line between these moments."""
    waits = rows.on(device) & rows.of(Kind.SYNCHRONISE) & rows.timed & (rows.start >= begin) & (rows.end <= end)
    return any(group.size >= REPEATED for _, group in rows.groups(waits, rows.place))


def float32_products(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Matrix products that run at float32's rate on a device whose tensor cores are faster."""
    if rates is None or rates.tensor <= rates.float32:
        return
    named = [number for number, name in enumerate(rows.names) if name.split("::")[-1] in MULTIPLIES]
    products = rows.on(device) & rows.of(Kind.KERNEL) & np.isin(rows.name, named) & (rows.flops > 0)
    products &= rows.duration > 0
    rate = np.where(products, rows.flops / np.maximum(rows.duration, 1) * 1e9, 0.0)
    # Slower ones are held up by memory, faster ones use tensor cores already.
    products &= (rate > 0.3 * rates.float32) & (rate < 1.1 * rates.float32)

    def gain_of(group: Numbers) -> int:
        return int(rows.duration[group].sum()) - int(float(rows.flops[group].sum()) / rates.tensor * 1e9)

    def seen() -> Iterator[Seen]:
        for (number,), group in rows.groups(products, rows.place):
            place, time = rows.place_of(number), duration(int(rows.duration[group].sum()))
            sentence = f"{place} multiplies matrices in float32 without tensor cores: {group.size:,} products, {time}."
            what_to_do = (
                "Call `torch.set_float32_matmul_precision('high')` for TF32, or compute in bfloat16 or float16"
                " (`torch.autocast`)."
            )
            yield Seen(place, group, sentence, what_to_do)

    yield from together(rows, "float32 products", seen(), gain_of)


RULES: tuple[Rule, ...] = (
    waits_in_loops,
    blocking_copies,
    copies_beside_nothing,
    made_on_the_cpu,
    many_small_copies,
    same_bytes_again,
    launch_bound,
    work_on_the_cpu,
    float32_products,
)


def _work(rows: Rows, device: str) -> Mask:
    mask: Mask = rows.on(device) & rows.of(Kind.KERNEL, Kind.TRANSFER, Kind.COLLECTIVE)
    return mask
