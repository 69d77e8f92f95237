"""The rules behind advice that look at copies to a device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpututor.trace.advice import Advice, Rates, Seen, found, together
from gpututor.trace.events import Kind
from gpututor.trace.rows import Intervals, Mask, Numbers, Rows, common, merged, within
from gpututor.trace.units import duration, size

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


def blocking_copies(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
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


def copies_beside_nothing(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
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
    rows: Rows, device: str, copies: Mask, rule: str, words: str, what_to_do: str
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


def made_on_the_cpu(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
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


def _made_there(rows: Rows, copies: Mask) -> Mask:
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


def many_small_copies(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
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


def _instead_of_small_copies(rows: Rows, group: Numbers) -> str:
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


def same_bytes_again(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
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


def work_on_the_cpu(rows: Rows, device: str, rates: Rates | None) -> Iterator[Advice]:
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


def copies_to(rows: Rows, device: str) -> Mask:
    """The copies from the host to that device."""
    mask: Mask = (
        rows.of(Kind.TRANSFER)
        & (rows.source == rows.trace.devices.get("cpu", -1))
        & (rows.target == rows.trace.devices.get(device, -1))
    )
    return mask


def intervals_of(rows: Rows, group: Numbers) -> Intervals:
    """When these rows ran; their times are known."""
    order = np.argsort(rows.start[group], kind="stable")
    return Intervals(rows.start[group][order], rows.end[group][order])


def _sum(rows: Rows, group: Numbers) -> int:
    return int(rows.duration[group].sum())
