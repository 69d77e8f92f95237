"""Advice on a trace: its data classes, and the rules that look for time that one device loses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpututor.trace.arrays import Intervals, Mask, Numbers, Place, TraceArrays, common, merged, within
from gpututor.trace.events import Kind
from gpututor.trace.formatting import duration, share, size

_WORTH_NAMING = 0.05
"""Of what the line loses that loses most: other lines that lose less are not named."""
REPEATED = 3
"""So often, and a line is taken to be in a loop."""
LEAST_WON = 0.05
"""Share of the program's time: work on the CPU that costs less is not worth a change."""
SMALL_COPY = 64 << 10
"""Bytes: below that a copy is mostly latency, on PCIe as on NVLink."""
MANY_COPIES = 8
FILLS = "aten::copy_"
"""The operator that copies into a tensor that is there."""
_MAKERS = "arange empty eye full linspace normal ones rand randint randn randperm zeros"
MAKES_TENSORS = frozenset(_MAKERS.split())
"""Operators that make a tensor, and can make it on any device."""
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


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a device multiplies matrices, in floating-point operations for each second."""

    float32: float
    """Without tensor cores."""
    tensor: float
    """On tensor cores, with TF32; 0 where it has none."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing worth changing."""

    rule: str
    """Which rule found it: a short name that stays the same."""
    sentence: str
    """What was seen, in one sentence."""
    place: Place
    gain: int
    """Nanoseconds that it costs, about, so that no more can be gained; 0 where it is about being right."""
    share: float
    """`gain` by the whole span, 0 to 1."""
    what_to_do: str
    others: tuple[Place, ...] = ()
    """More lines that the same would mend; `gain` is of all together."""

    @property
    def costs(self) -> str:
        """What it costs as it is; empty where it is about being right. What takes its place costs something too."""
        if not self.gain:
            return ""
        return f"As it is, this costs about {duration(self.gain)}, {share(self.share)} of the time."


def found(
    rows: TraceArrays,
    rule: str,
    sentence: str,
    place: Place,
    gain: int,
    what_to_do: str,
    others: tuple[Place, ...] = (),
) -> Advice:
    """One piece of advice, with the share of its gain."""
    gain = min(gain, rows.span)
    return Advice(rule, sentence, place, gain, gain / rows.span if rows.span else 0.0, what_to_do, others)


class Seen(NamedTuple):
    """What a rule saw at one line."""

    place: Place
    group: Numbers
    """The rows that it is about."""
    sentence: str
    what_to_do: str


def together(rows: TraceArrays, rule: str, seen: Iterable[Seen], gain_of: Callable[[Numbers], int]) -> Iterator[Advice]:
    """One piece of advice for all lines with the same remedy: the line that loses most in full, then the others.

    `gain_of` tells what some rows lose: of several lines the gain is that of their rows together, as what they lose may
    be the same time.
    """
    remedies: dict[str, list[tuple[int, Seen]]] = {}
    for one in seen:
        if (gain := gain_of(one.group)) > 0:
            remedies.setdefault(one.what_to_do, []).append((gain, one))
    for what_to_do, all_of_it in remedies.items():
        (most, first), *less = sorted(all_of_it, key=lambda pair: (-pair[0], pair[1].place))
        more = [one for gain, one in less if gain >= _WORTH_NAMING * most]
        gain = gain_of(np.sort(np.concatenate([first.group, *(one.group for one in more)])))
        others = tuple(sorted({one.place for one in more}))
        sentence = f"{first.sentence} The same goes for {_lines(first.place, others)}." if others else first.sentence
        yield found(rows, rule, sentence, first.place, gain, what_to_do, others)


def _lines(first: Place, others: Sequence[Place]) -> str:
    """`lines 9 and 12`; of other files with their names."""
    here = [str(one.line) for one in others if one.file == first.file]
    words = [str(one) for one in others if one.file != first.file]
    if here:
        words = [f"line{'s' if len(here) > 1 else ''} {_listed(here)}", *words]
    return _listed(words)


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


Rule = Callable[[TraceArrays, str, Rates | None], Iterator[Advice]]


def waits_in_loops(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
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


def _own_time(rows: TraceArrays, device: str, waits: Mask) -> Numbers:
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


def launch_bound(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
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


def _waits_between(rows: TraceArrays, device: str, begin: int, end: int) -> bool:
    """Whether the host waits again and again at one line between these moments."""
    waits = rows.on(device) & rows.of(Kind.SYNCHRONISE) & rows.timed & (rows.start >= begin) & (rows.end <= end)
    return any(group.size >= REPEATED for _, group in rows.groups(waits, rows.place))


def float32_products(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
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


def _work(rows: TraceArrays, device: str) -> Mask:
    mask: Mask = rows.on(device) & rows.of(Kind.KERNEL, Kind.TRANSFER, Kind.COLLECTIVE)
    return mask


def blocking_copies(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Copies to the device that the host waits for, while kernels could run. At most the shorter of the two is won."""
    copies = copies_to(rows, device) & ~rows.asynchronous & (rows.size > SMALL_COPY) & (rows.partner < 0)
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


def copies_beside_nothing(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Asynchronous copies that no kernel runs beside: on the kernels' stream, copies and kernels take turns."""
    copies = copies_to(rows, device) & rows.asynchronous & (rows.partner < 0)
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
    rows: TraceArrays, device: str, copies: Mask, rule: str, words: str, what_to_do: str
) -> Iterator[Advice]:
    kernels = merged(rows.intervals(rows.on(device) & rows.of(Kind.KERNEL)))

    def gain_of(group: Numbers) -> int:
        times = merged(intervals_of(rows, group))
        overlap = common(times, kernels)
        free_kernels = within(kernels, int(times.start[0]), int(times.end[-1])).total - overlap
        return min(times.total - overlap, free_kernels)

    def seen() -> Iterator[Seen]:
        for (number,), group in rows.groups(copies & rows.timed & ~_made_there(rows, copies), rows.place):
            if group.size < REPEATED:
                continue
            times, place = merged(intervals_of(rows, group)), rows.place_of(number)
            sentence = words.format(
                place=place,
                size=size(int(rows.size[group].sum())),
                device=device,
                count=group.size,
                time=duration(times.total - common(times, kernels)),
            )
            yield Seen(place, group, sentence, what_to_do)

    yield from together(rows, rule, seen(), gain_of)


def made_on_the_cpu(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Lines that make a tensor on the CPU only to copy it: its making and its copy would both be gone."""
    copies = copies_to(rows, device) & (rows.partner < 0) & rows.timed
    copies &= _made_there(rows, copies)
    computing = rows.on("cpu") & rows.of(Kind.KERNEL) & rows.timed
    kernels = merged(rows.intervals(rows.on(device) & rows.of(Kind.KERNEL)))

    def gain_of(group: Numbers) -> int:
        making = np.flatnonzero(computing & np.isin(rows.place, rows.place[group]))
        times = merged(intervals_of(rows, np.append(group, making)))
        return times.total - common(times, kernels)

    def seen() -> Iterator[Seen]:
        for (number,), group in rows.groups(copies, rows.place):
            if group.size < REPEATED:
                continue
            place, making = rows.place_of(number), computing & (rows.place == number)
            sentence = (
                f"{place} makes tensors on the CPU ({duration(int(rows.duration[making].sum()))}), then copies them to"
                f" {device}: {group.size:,} copies, {size(int(rows.size[group].sum()))},"
                f" {duration(int(rows.duration[group].sum()))}."
            )
            what_to_do = 'Make them on the device: `device="cuda"` in the call that makes them. Then nothing is copied.'
            yield Seen(place, group, sentence, what_to_do)

    yield from together(rows, "made on the CPU", seen(), gain_of)


def _made_there(rows: TraceArrays, copies: Mask) -> Mask:
    """Those copies whose own line makes tensors of as many bytes on the CPU."""
    named = [number for number, name in enumerate(rows.names) if name.split("::")[-1] in MAKES_TENSORS]
    makes = rows.on("cpu") & rows.of(Kind.KERNEL) & np.isin(rows.name, named) & (rows.place != 0)
    places = [
        number
        for (number,), group in rows.groups(copies & (rows.place != 0), rows.place)
        if int(rows.size[makes & (rows.place == number)].sum()) >= int(rows.size[group].sum())
    ]
    mask: Mask = copies & np.isin(rows.place, places)
    return mask


def many_small_copies(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Copies to the device that are mostly latency, and could be one: that keeps one latency of all."""
    copies = copies_to(rows, device) & (rows.size <= SMALL_COPY) & rows.timed

    def seen() -> Iterator[Seen]:
        for (number,), group in rows.groups(copies & ~_made_there(rows, copies), rows.place):
            if group.size < MANY_COPIES:
                continue
            place = rows.place_of(number)
            sentence = (
                f"{place} makes {group.size:,} copies of {size(int(rows.size[group].mean()))} each to {device}, which"
                f" take {duration(int(rows.duration[group].sum()))}: mostly the latency of a copy."
            )
            yield Seen(place, group, sentence, _instead_of_small_copies(rows, group))

    def gain_of(group: Numbers) -> int:
        lines = np.unique(rows.place[group]).size
        return (group.size - lines) * int(rows.duration[group].min())

    yield from together(rows, "small copies", seen(), gain_of)


def _instead_of_small_copies(rows: TraceArrays, group: Numbers) -> str:
    """What suits the copies of a line: what fills tensors that are there, and a model's, cannot be gathered."""
    if all(rows.names[number] == FILLS for number in np.unique(rows.name[group])):
        return (
            "They fill tensors that are on the device already, as `load_state_dict` does: keep what they are filled"
            " with there too, or fill them once, before what is repeated."
        )
    if np.unique(rows.size[group]).size > 1:
        return (
            "They differ in size, as a model's parameters do: move a model once, before what is repeated, or make it on"
            ' the device (`with torch.device("cuda"):`). Other tensors can be joined on the host and copied once.'
        )
    return "Gather the values on the host and copy them once, or make them on the device."


def same_bytes_again(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Copies of bytes that were copied to the device before, and did not change: each but the first is lost."""
    copies = copies_to(rows, device) & (rows.partner >= 0)

    def seen() -> Iterator[Seen]:
        for (number,), group in rows.groups(copies, rows.place):
            place, time, total = rows.place_of(number), _sum(rows, group), size(int(rows.size[group].sum()))
            often = "once" if group.size == 1 else f"{group.size:,} times"
            sentence = f"{place} copies the same bytes to {device} again, {often}: {total}, {duration(time)}."
            what_to_do = "Copy them once, before the loop, and keep the tensor on the device."
            yield Seen(place, group, sentence, what_to_do)

    yield from together(rows, "same bytes again", seen(), lambda group: _sum(rows, group))


def work_on_the_cpu(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """A line computes on the CPU while the device is idle: that much would be won if the work were elsewhere."""
    busy = merged(rows.intervals(rows.on(device) & rows.of(Kind.KERNEL, Kind.TRANSFER, Kind.COLLECTIVE)))
    computing = rows.on("cpu") & rows.of(Kind.KERNEL) & rows.timed
    for (number,), group in rows.groups(computing, rows.place):
        times = merged(intervals_of(rows, group))
        place = rows.place_of(number)
        sentence = f"{place} computes on the CPU for {duration(times.total)}, while {device} has nothing to do."
        what_to_do = "Move the tensors to the device first, or prepare them in DataLoader workers (`num_workers`)."
        won = times.total - common(times, busy)
        if group.size >= REPEATED and won >= LEAST_WON * rows.span:
            yield found(rows, "work on the CPU", sentence, place, won, what_to_do)


def copies_to(rows: TraceArrays, device: str) -> Mask:
    """The copies from the host to that device."""
    mask: Mask = (
        rows.of(Kind.TRANSFER)
        & (rows.source == rows.trace.devices.get("cpu", -1))
        & (rows.target == rows.trace.devices.get(device, -1))
    )
    return mask


def intervals_of(rows: TraceArrays, group: Numbers) -> Intervals:
    """When these rows ran; their times are known."""
    order = np.argsort(rows.start[group], kind="stable")
    return Intervals(rows.start[group][order], rows.end[group][order])


def _sum(rows: TraceArrays, group: Numbers) -> int:
    return int(rows.duration[group].sum())


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
