"""The rules behind advice: each looks at one device's rows, and gives what it finds with the time that it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gpututor.trace.advice import Advice, Rates, found
from gpututor.trace.events import Kind
from gpututor.trace.rows import Intervals, Mask, Numbers, Rows, common, merged, within
from gpututor.trace.units import duration, size

Rule = Callable[[Rows, str, Rates | None], Iterator[Advice]]
REPEATED = 3
"""So often, and a line is taken to be in a loop."""
SMALL_COPY = 64 << 10
"""Bytes: below that a copy is mostly latency, on PCIe as on NVLink."""
MANY_COPIES = 8
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
    "aten::nonzero": ("waits for how many elements there are", "Use `torch.where` with three arguments, or a mask."),
}
_OTHER_WAIT = (
    "waits for the device",
    "Wait once, after the loop, or not at all: streams keep their order by themselves.",
)


def waits_in_loops(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
    """The host waits again and again at one line. Without it, host and device would work at the same time: what is
    won is the wait, as far as the device stood idle between the first and the last of them."""
    waits = rows.on(device) & rows.of(Kind.SYNCHRONISE) & rows.timed
    busy = merged(rows.intervals(_work(rows, device)))
    for (number,), group in rows.groups(waits, rows.place):
        if group.size < REPEATED:
            continue
        total = int(rows.duration[group].sum())
        idle = _idle(busy, int(rows.start[group].min()), int(rows.end[group].max()))
        place, name = rows.place_of(number), rows.names[int(rows.name[group[0]])]
        words, what_to_do = _WAIT_WORDS.get(name, _OTHER_WAIT)
        sentence = f"{place} {words}: {group.size:,} waits, {duration(total)} in all."
        yield found(rows, "waits in a loop", sentence, place, min(total, idle), what_to_do)


def blocking_copies(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Copies to the device that the host waits for, while kernels could run. At most the shorter of the two is won."""
    copies = _copies_to(rows, device) & ~rows.asynchronous & (rows.size > SMALL_COPY) & (rows.partner < 0)
    yield from _hidden_by_kernels(
        rows,
        device,
        copies,
        "pageable copies",
        "{place} copies {size} to {device} from pageable memory, in {count:,} copies that the host waits for:"
        " {time} in which no kernel runs.",
        "Take pinned memory (`pin_memory=True` in the DataLoader, or `.pin_memory()`), and copy with"
        " `non_blocking=True` while the step before still computes.",
    )


def copies_beside_nothing(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Asynchronous copies that no kernel runs beside: on the kernels' stream, copies and kernels take turns."""
    copies = _copies_to(rows, device) & rows.asynchronous & (rows.partner < 0)
    yield from _hidden_by_kernels(
        rows,
        device,
        copies,
        "copies do not overlap",
        "{place} copies {size} to {device} without waiting, in {count:,} copies, but {time} of them pass while no"
        " kernel runs.",
        "Copy the next batch on a second stream while this one is computed, and let the kernels' stream wait for it"
        " (`wait_stream`).",
    )


def _hidden_by_kernels(
    rows: Rows, device: str, copies: Mask, rule: str, words: str, what_to_do: str
) -> Iterator[Advice]:
    kernels = merged(rows.intervals(rows.on(device) & rows.of(Kind.KERNEL)))
    for (number,), group in rows.groups(copies & rows.timed, rows.place):
        if group.size < REPEATED:
            continue
        times = merged(_of(rows, group))
        begin, end = int(times.start[0]), int(times.end[-1])
        overlap = common(times, kernels)
        alone = times.total - overlap
        free_kernels = within(kernels, begin, end).total - overlap
        place = rows.place_of(number)
        sentence = words.format(
            place=place,
            size=size(int(rows.size[group].sum())),
            device=device,
            count=group.size,
            time=duration(alone),
        )
        yield found(rows, rule, sentence, place, min(alone, free_kernels), what_to_do)


def many_small_copies(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Copies to the device that are mostly latency, and could be one: that keeps one latency of all."""
    copies = _copies_to(rows, device) & (rows.size <= SMALL_COPY) & rows.timed
    for (number,), group in rows.groups(copies, rows.place):
        if group.size < MANY_COPIES:
            continue
        place, latency = rows.place_of(number), int(rows.duration[group].min())
        sentence = (
            f"{place} makes {group.size:,} copies of {size(int(rows.size[group].mean()))} each to {device}, which take"
            f" {duration(int(rows.duration[group].sum()))}: mostly the latency of a copy."
        )
        what_to_do = "Gather the values on the host and copy them once, or make them on the device."
        yield found(rows, "small copies", sentence, place, (group.size - 1) * latency, what_to_do)


def same_bytes_again(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Copies of bytes that were copied to the device before, and did not change: each but the first is lost."""
    copies = _copies_to(rows, device) & (rows.partner >= 0)
    for (number,), group in rows.groups(copies, rows.place):
        place, time = rows.place_of(number), int(rows.duration[group].sum())
        total = size(int(rows.size[group].sum()))
        sentence = f"{place} copies the same bytes to {device} again, {group.size:,} times: {total}, {duration(time)}."
        what_to_do = "Copy them once, before the loop, and keep the tensor on the device."
        yield found(rows, "same bytes again", sentence, place, time, what_to_do)


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
    picked = np.flatnonzero((gap > 0) & (gap <= LAUNCH_GAP) & at_once & ours[work])
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
    what_to_do = (
        "Give each kernel more to do: larger batches, fewer and fused operators (`torch.compile`, `foreach` and fused"
        " optimisers), or replay the step as a CUDA graph."
    )
    yield found(rows, "launches", sentence, place, max(lost, 0), what_to_do)


def work_on_the_cpu(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
    """A line computes on the CPU while the device is idle: that much would be won if the work were elsewhere."""
    busy = merged(rows.intervals(_work(rows, device)))
    computing = rows.on("cpu") & rows.of(Kind.KERNEL) & rows.timed
    for (number,), group in rows.groups(computing, rows.place):
        times = merged(_of(rows, group))
        place = rows.place_of(number)
        sentence = f"{place} computes on the CPU for {duration(times.total)}, while {device} has nothing to do."
        what_to_do = "Move the tensors to the device first, or prepare them in DataLoader workers (`num_workers`)."
        if group.size >= REPEATED:
            yield found(rows, "work on the CPU", sentence, place, times.total - common(times, busy), what_to_do)


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
    for (number,), group in rows.groups(products, rows.place):
        place, time = rows.place_of(number), int(rows.duration[group].sum())
        gain = time - int(float(rows.flops[group].sum()) / rates.tensor * 1e9)
        sentence = (
            f"{place} multiplies matrices in float32 without tensor cores: {group.size:,} products, {duration(time)}."
        )
        what_to_do = (
            "Call `torch.set_float32_matmul_precision('high')` for TF32, or compute in bfloat16 or float16"
            " (`torch.autocast`)."
        )
        yield found(rows, "float32 products", sentence, place, gain, what_to_do)


RULES: tuple[Rule, ...] = (
    waits_in_loops,
    blocking_copies,
    copies_beside_nothing,
    many_small_copies,
    same_bytes_again,
    launch_bound,
    work_on_the_cpu,
    float32_products,
)


def _work(rows: Rows, device: str) -> Mask:
    mask: Mask = rows.on(device) & rows.of(Kind.KERNEL, Kind.TRANSFER, Kind.COLLECTIVE)
    return mask


def _copies_to(rows: Rows, device: str) -> Mask:
    mask: Mask = (
        rows.of(Kind.TRANSFER)
        & (rows.source == rows.trace.devices.get("cpu", -1))
        & (rows.target == rows.trace.devices.get(device, -1))
    )
    return mask


def _of(rows: Rows, group: Numbers) -> Intervals:
    """When these rows ran; their times are known."""
    order = np.argsort(rows.start[group], kind="stable")
    return Intervals(rows.start[group][order], rows.end[group][order])


def _idle(busy: Intervals, begin: int, end: int) -> int:
    return end - begin - within(busy, begin, end).total
