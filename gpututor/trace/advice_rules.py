"""Rules that look for lost time of one device, and the data classes of their advice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpututor.trace.arrays import Intervals, Mask, Numbers, Place, TraceArrays, common, intervals_of, merged, within
from gpututor.trace.events import COMPILES, Kind
from gpututor.trace.formatting import duration, share, size

_WORTH_NAMING = 0.05
"""Share of the largest loss of any line, below which a line is not named."""
REPEATED = 3
"""Events at a line from which the line is assumed to be in a loop."""
LEAST_WON = 0.05
"""Share of the program's time that moving work from the CPU must gain at least."""
SMALL_COPY = 64 << 10
"""Bytes below which a copy is mostly latency, on PCIe and on NVLink."""
MANY_COPIES = 8
_SCATTERED = 1.5
"""Bytes moved per requested byte, above which the accesses of a kernel are scattered."""
FILLS = "aten::copy_"
"""The operator that copies into an existing tensor."""
_MAKERS = "arange empty eye full linspace normal ones rand randint randn randperm zeros"
MAKES_TENSORS = frozenset(_MAKERS.split())
"""Operators that create a tensor on any device."""
MANY_KERNELS = 100
LAUNCH_GAP = 50_000
"""Longest idle time, in nanoseconds, that counts as the host's time for a launch; a longer one has other causes."""
MULTIPLIES = ("mm", "addmm", "bmm", "baddbmm", "linear", "convolution", "conv")
_WAIT_WORDS = {
    "aten::_local_scalar_dense": (
        "reads a value of the device (`.item()`, `float()`, `if`)",
        "Accumulate on the device, and read the value once, after the loop or every few steps.",
    ),
    "print": ("prints a tensor of the device", "Print less often, or print once, after the loop."),
    "aten::_to_copy": (
        "copies to the host and waits",
        "Keep the results on the device, and copy them together, after the loop.",
    ),
}
_SHAPING = "index index_put index_put_ masked_select nonzero repeat_interleave _unique2 unique_consecutive unique_dim"
_SHAPED_BY_DATA = frozenset(f"aten::{name}" for name in (*_SHAPING.split(), "bincount"))
"""Operators whose inputs' values determine the size of the result, for which the host waits."""
_SHAPE_WORDS = (
    "waits for the number of elements",
    "Keep the shape: use `torch.where` with three arguments, or multiply by the mask. Or compute the indices once, and"
    " reuse them.",
)
_OTHER_WAIT = "waits for the device", "Wait once, after the loop, or not at all: a stream runs its work in order."


@dataclass(frozen=True, slots=True)
class Rates:
    """A device's peak rates."""

    float32: float
    """Floating-point operations a second without tensor cores."""
    tensor: float
    """Operations a second on tensor cores, with TF32; 0 without tensor cores."""
    bytes_per_s: float = 0.0
    """Bandwidth of the memory; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A change that is worth making."""

    rule: str
    """The rule's name, which never changes."""
    sentence: str
    place: Place
    gain: int
    """Approximate nanoseconds lost, the most that a change can gain; 0 for an error."""
    share: float
    """`gain` divided by the span, 0 to 1."""
    what_to_do: str
    others: tuple[Place, ...] = ()
    """Further lines with the same remedy, whose losses `gain` includes."""

    @property
    def costs(self) -> str:
        """A sentence on the loss; empty for an error."""
        if not self.gain:
            return ""
        return f"As it is, this costs about {duration(self.gain)}, {share(self.share)} of the time."


def make_advice(
    rows: TraceArrays, rule: str, sentence: str, place: Place, gain: int, what_to_do: str, others: Sequence[Place] = ()
) -> Advice:
    gain = min(gain, rows.span)
    # Compilation does not count in the share: a real program compiles once and runs for much longer.
    compiles = [number for number, name in enumerate(rows.names) if name.startswith(COMPILES)]
    span = rows.span - int(rows.duration[rows.of(Kind.RANGE) & np.isin(rows.name, compiles)].sum())
    share = min(gain / span, 1.0) if span > 0 else 0.0
    return Advice(rule, sentence, place, gain, share, what_to_do, tuple(others))


class _Loss(NamedTuple):
    """The loss at one line; the largest sorts first."""

    negative: int
    place: Place
    sentence: str
    group: Numbers
    """Rows of the trace."""


def advice_by_remedy(
    rows: TraceArrays,
    rule: str,
    mask: Mask,
    describe: Callable[[Place, Numbers], tuple[str, str]],
    gain_of: Callable[[Numbers], int],
    least: int = 1,
) -> Iterator[Advice]:
    """Yield one piece of advice for all lines with the same remedy: the line that loses most, then the others.

    A line has at least `least` rows of `mask`. `describe` returns its sentence and the remedy, `gain_of` the loss of
    some rows. The gain of several lines is computed from all their rows together, because they may lose the same time.
    """
    remedies: defaultdict[str, list[_Loss]] = defaultdict(list)
    for place, group in _by_line(rows, mask, least):
        if (gain := gain_of(group)) > 0:
            sentence, what_to_do = describe(place, group)
            remedies[what_to_do].append(_Loss(-gain, place, sentence, group))
    for what_to_do, losses in remedies.items():
        first, *less = sorted(losses)
        more = [loss for loss in less if loss.negative <= _WORTH_NAMING * first.negative]
        gain = gain_of(np.sort(np.concatenate([loss.group for loss in (first, *more)])))
        others = sorted(loss.place for loss in more)
        sentence = f"{first.sentence} The same goes for {_lines(first.place, others)}." if others else first.sentence
        yield make_advice(rows, rule, sentence, first.place, gain, what_to_do, others)


def _lines(first: Place, others: Sequence[Place]) -> str:
    """Return text like `lines 9 and 12`, with the names of other files."""
    here = [str(place.line) for place in others if place.file == first.file]
    lines = [f"line{'s' if len(here) > 1 else ''} {_listed(here)}"] if here else []
    return _listed([*lines, *(str(place) for place in others if place.file != first.file)])


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


Rule = Callable[[TraceArrays, str, Rates | None], Iterator[Advice]]


def waits_in_loops(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Find lines at which the host waits again and again.

    Without the waits, host and device would work at the same time. The gain is the time of the waits and of the host's
    work before them. Its limit is the device's idle time between the first and the last wait.
    """
    waits = rows.on(device) & rows.of(Kind.SYNCHRONISE) & rows.timed
    busy = merged(rows.intervals(rows.work(device)))
    own = _own_time(rows, device, waits)

    def gain_of(group: Numbers) -> int:
        begin, end = int((rows.start[group] - own[group]).min()), int(rows.end[group].max())
        return min(_time(rows, group) + int(own[group].sum()), end - begin - within(busy, begin, end).total)

    def describe(place: Place, group: Numbers) -> tuple[str, str]:
        name = rows.names[int(rows.name[group[0]])]
        words, what_to_do = _SHAPE_WORDS if name in _SHAPED_BY_DATA else _WAIT_WORDS.get(name, _OTHER_WAIT)
        return f"{place} {words}: {group.size:,} waits, {duration(_time(rows, group))} in all.", what_to_do

    return advice_by_remedy(rows, "waits in a loop", waits, describe, gain_of, REPEATED)


def _own_time(rows: TraceArrays, device: str, waits: Mask) -> Numbers:
    """Return the host's time between its last launch and each wait that reads a value; 0 for other rows.

    Devices are idle in that time.
    """
    own = np.zeros(rows.kind.size, dtype=np.int64)
    reads = waits & np.isin(rows.name, [number for number, name in enumerate(rows.names) if name in _WAIT_WORDS])
    launches = np.unique(rows.launched[rows.work(device) & (rows.launched >= 0)])
    ends = np.unique(np.concatenate([launches, rows.end[rows.of(Kind.SYNCHRONISE) & rows.timed]]))
    # The copy of the value itself begins with the wait.
    index = np.searchsorted(ends, rows.start[reads], side="left")
    before = np.where(index > 0, ends[np.maximum(index - 1, 0)] if ends.size else 0, rows.start[reads])
    gap = rows.start[reads] - before
    own[reads] = np.where(gap <= LAUNCH_GAP, gap, 0)
    return own


def launch_bound(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Find gaps before kernels that start as soon as they are launched, unless the host waited or computed."""
    ours = rows.on(device) & rows.of(Kind.KERNEL) & rows.timed
    if int(ours.sum()) < MANY_KERNELS:
        return
    work = np.flatnonzero(rows.work(device) & rows.timed)
    work = work[np.argsort(rows.start[work], kind="stable")]
    reached = np.append(rows.start[work[:1]], np.maximum.accumulate(rows.end[work])[:-1])
    gap = rows.start[work] - reached
    at_once = rows.start[work] - rows.launched[work] <= 1_000
    # The gap before the first launch after a wait is a cost of the wait.
    waits = np.sort(rows.end[rows.on(device) & rows.of(Kind.SYNCHRONISE) & rows.timed])
    after_a_wait = np.searchsorted(waits, rows.start[work]) > np.searchsorted(waits, reached)
    picked = np.flatnonzero((gap > 0) & (gap <= LAUNCH_GAP) & at_once & ~after_a_wait & ours[work])
    if picked.size < MANY_KERNELS // 2:
        return
    gaps = Intervals(reached[picked], rows.start[work][picked])
    lost = gaps.total - common(gaps, merged(rows.intervals(rows.of(Kind.SYNCHRONISE) | rows.on_host())))
    places, index = np.unique(rows.place[work[picked]], return_inverse=True)
    place = rows.place_of(int(places[np.argmax(np.bincount(index, weights=gap[picked]))]))
    mean = int(rows.duration[work[picked]].mean())
    sentence = (
        f"{device} waits for the host to launch {picked.size:,} of {int(ours.sum()):,} kernels, mostly at {place}."
        f" These kernels take {duration(mean)} on average."
    )
    names = [rows.names[number] for number in np.unique(rows.name[work[picked]])]
    optimizers = "fused optimizers" if any("_foreach_" in name for name in names) else "`foreach` and fused optimizers"
    operators = f"fewer and fused operators (`torch.compile`, {optimizers})"
    waits_inside = rows.on(device) & rows.of(Kind.SYNCHRONISE) & rows.timed
    waits_inside &= (rows.start >= gaps.start[0]) & (rows.end <= gaps.end[-1])
    has_loop = any(group.size >= REPEATED for _, group in rows.groups(waits_inside, rows.place))
    # A CUDA graph cannot contain a wait.
    last = "and do not wait for it in the loop" if has_loop else "or replay the step as a CUDA graph"
    what_to_do = f"Give each kernel more to do: larger batches, {operators}, {last}."
    yield make_advice(rows, "launches", sentence, place, max(lost, 0), what_to_do)


def float32_products(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Find matrix products that run at float32's rate on a device whose tensor cores are faster."""
    if rates is None or rates.tensor <= rates.float32:
        return
    products = rows.on(device) & rows.of(Kind.KERNEL) & named(rows, MULTIPLIES) & (rows.flops > 0)
    products &= rows.duration > 0
    rate = np.where(products, rows.flops / np.maximum(rows.duration, 1) * 1e9, 0.0)
    # Slower products wait for memory; faster products already use tensor cores.
    products &= (rate > 0.3 * rates.float32) & (rate < 1.1 * rates.float32)

    def gain_of(group: Numbers) -> int:
        return _time(rows, group) - int(float(rows.flops[group].sum()) / rates.tensor * 1e9)

    def describe(place: Place, group: Numbers) -> tuple[str, str]:
        time = duration(_time(rows, group))
        return (
            f"{place} multiplies matrices in float32 without tensor cores: {group.size:,} products, {time}.",
            "Call `torch.set_float32_matmul_precision('high')` for TF32, or compute in bfloat16 or float16"
            " (`torch.autocast`).",
        )

    yield from advice_by_remedy(rows, "float32 products", products, describe, gain_of)


def scattered_accesses(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Find kernels whose warps move more bytes than they use. The gain is the time of the unused share."""
    kernels = rows.on(device) & rows.of(Kind.KERNEL) & (rows.moved > _SCATTERED * rows.requested) & rows.timed

    def gain_of(group: Numbers) -> int:
        wasted = 1 - rows.requested[group] / rows.moved[group]
        return int((rows.duration[group] * wasted).sum())

    def describe(place: Place, group: Numbers) -> tuple[str, str]:
        name = rows.names[int(rows.name[group[0]])]
        asked, moved = int(rows.requested[group].sum()), int(rows.moved[group].sum())
        return (
            f"{name}, launched at {place}, asks for {size(asked)} and moves {size(moved)}.",
            "Let neighboring lanes use neighboring addresses: `tl.arange` belongs to the dimension with stride 1.",
        )

    yield from advice_by_remedy(rows, "scattered accesses", kernels, describe, gain_of)


def blocking_copies(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Find copies to the device that the host waits for, while kernels could run. The gain is the shorter time."""
    copies = copies_to(rows, device) & ~rows.asynchronous & (rows.size > SMALL_COPY) & (rows.partner < 0)
    return _hidden_by_kernels(
        rows,
        device,
        copies,
        "pageable copies",
        "{place} copies {size} to {device} from pageable memory, in {count:,} copies that the host waits for:"
        " {time} in which no kernel runs.",
        "Use pinned memory (`pin_memory=True` in the DataLoader, or `.pin_memory()`), and copy with"
        " `non_blocking=True` while the previous step still computes.",
    )


def copies_without_overlap(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Find asynchronous copies without concurrent kernels, such as copies on the kernels' own stream."""
    copies = copies_to(rows, device) & rows.asynchronous & (rows.partner < 0)
    return _hidden_by_kernels(
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

    def describe(place: Place, group: Numbers) -> tuple[str, str]:
        times = merged(intervals_of(rows, group))
        time, total = duration(times.total - common(times, kernels)), size(int(rows.size[group].sum()))
        return words.format(place=place, size=total, device=device, count=group.size, time=time), what_to_do

    shown = copies & rows.timed & ~_made_on_the_line(rows, copies)
    return advice_by_remedy(rows, rule, shown, describe, gain_of, REPEATED)


def made_on_the_cpu(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Find lines that create a tensor on the CPU only to copy it: both costs can be avoided."""
    copies = copies_to(rows, device) & (rows.partner < 0) & rows.timed
    copies &= _made_on_the_line(rows, copies)
    computing = rows.on_host() & rows.timed
    kernels = merged(rows.intervals(rows.on(device) & rows.of(Kind.KERNEL)))

    def gain_of(group: Numbers) -> int:
        making = np.flatnonzero(computing & np.isin(rows.place, rows.place[group]))
        times = merged(intervals_of(rows, np.append(group, making)))
        return times.total - common(times, kernels)

    def describe(place: Place, group: Numbers) -> tuple[str, str]:
        making = computing & (rows.place == rows.place[group[0]])
        return (
            f"{place} creates tensors on the CPU ({duration(_time(rows, making))}), then copies them to {device}:"
            f" {group.size:,} copies, {size(int(rows.size[group].sum()))}, {duration(_time(rows, group))}.",
            'Create them on the device: `device="cuda"` in the call that creates them. Then nothing is copied.',
        )

    return advice_by_remedy(rows, "made on the CPU", copies, describe, gain_of, REPEATED)


def _made_on_the_line(rows: TraceArrays, copies: Mask) -> Mask:
    """Return a mask of the copies whose own line creates tensors of as many bytes on the CPU."""
    makes = rows.on_host() & named(rows, MAKES_TENSORS) & (rows.place != 0)
    places = [
        number
        for (number,), group in rows.groups(copies & (rows.place != 0), rows.place)
        if int(rows.size[makes & (rows.place == number)].sum()) >= int(rows.size[group].sum())
    ]
    mask: Mask = copies & np.isin(rows.place, places)
    return mask


def many_small_copies(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Find copies to the device that are mostly latency, and could be one copy with one latency."""
    copies = copies_to(rows, device) & (rows.size <= SMALL_COPY) & rows.timed

    def describe(place: Place, group: Numbers) -> tuple[str, str]:
        sentence = (
            f"{place} makes {group.size:,} copies of {size(int(rows.size[group].mean()))} each to {device}, which"
            f" take {duration(_time(rows, group))}: mostly the latency of a copy."
        )
        return sentence, _instead_of_small_copies(rows, group)

    def gain_of(group: Numbers) -> int:
        lines = np.unique(rows.place[group]).size
        return (group.size - lines) * int(rows.duration[group].min())

    shown = copies & ~_made_on_the_line(rows, copies)
    return advice_by_remedy(rows, "small copies", shown, describe, gain_of, MANY_COPIES)


def _instead_of_small_copies(rows: TraceArrays, group: Numbers) -> str:
    """Return the remedy for a line: copies into existing tensors, or of a model, cannot be joined."""
    if all(rows.names[number] == FILLS for number in np.unique(rows.name[group])):
        return (
            "They fill tensors that are already on the device, as `load_state_dict` does: keep the values on the device"
            " too, or fill them once, before the loop."
        )
    if np.unique(rows.size[group]).size > 1:
        return (
            "They differ in size, as a model's parameters do: move a model once, before the loop, or create it on"
            ' the device (`with torch.device("cuda"):`). Other tensors can be joined on the host and copied once.'
        )
    return "Gather the values on the host and copy them once, or create them on the device."


def same_bytes_again(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Find copies of bytes that the device has already, unchanged: only the first copy is needed."""
    copies = copies_to(rows, device) & (rows.partner >= 0)

    def describe(place: Place, group: Numbers) -> tuple[str, str]:
        time, total = duration(_time(rows, group)), size(int(rows.size[group].sum()))
        often = "once" if group.size == 1 else f"{group.size:,} times"
        sentence = f"{place} copies the same bytes to {device} again, {often}: {total}, {time}."
        return sentence, "Copy them once, before the loop, and keep the tensor on the device."

    return advice_by_remedy(rows, "same bytes again", copies, describe, lambda group: _time(rows, group))


def work_on_the_cpu(rows: TraceArrays, device: str, rates: Rates | None) -> Iterator[Advice]:
    """Find lines that compute on the CPU while the device is idle: moving that work gains the idle time."""
    busy = merged(rows.intervals(rows.work(device)))
    for place, group in _by_line(rows, rows.on_host() & rows.timed, REPEATED):
        times = merged(intervals_of(rows, group))
        sentence = f"{place} computes on the CPU for {duration(times.total)}, while {device} has nothing to do."
        what_to_do = "Move the tensors to the device first, or prepare them in DataLoader workers (`num_workers`)."
        won = times.total - common(times, busy)
        if won >= LEAST_WON * rows.span:
            yield make_advice(rows, "work on the CPU", sentence, place, won, what_to_do)


def copies_to(rows: TraceArrays, device: str) -> Mask:
    mask: Mask = rows.from_host & (rows.target == rows.trace.devices.get(device, -1))
    return mask


def named(rows: TraceArrays, operators: Collection[str]) -> Mask:
    """Return a mask of the rows with the name of one of the operators, in any namespace."""
    numbers = [number for number, name in enumerate(rows.names) if name.split("::")[-1] in operators]
    mask: Mask = np.isin(rows.name, numbers)
    return mask


def _by_line(rows: TraceArrays, mask: Mask, least: int = 1) -> Iterator[tuple[Place, Numbers]]:
    """Yield each line with at least `least` rows of the mask, and those rows."""
    for (number,), group in rows.groups(mask, rows.place):
        if group.size >= least:
            yield rows.place_of(number), group


def _time(rows: TraceArrays, group: Numbers | Mask) -> int:
    return int(rows.duration[group].sum())


RULES: tuple[Rule, ...] = (
    waits_in_loops,
    blocking_copies,
    copies_without_overlap,
    made_on_the_cpu,
    many_small_copies,
    same_bytes_again,
    launch_bound,
    work_on_the_cpu,
    float32_products,
    scattered_accesses,
)
