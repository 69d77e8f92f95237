"""One event of a timeline in words: what it is, when it ran, what it moved, and what it waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpututor.trace.events import Kind
from gpututor.trace.hazards import hazard_of, sentence_of
from gpututor.trace.lanes import Lane, LaneKind, Span
from gpututor.trace.picture import Picture
from gpututor.trace.rows import Place, Rows
from gpututor.trace.units import bandwidth, duration, operations, share, size, speed

UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000))
_SHORT = {"aten::_local_scalar_dense": ".item()", "aten::_to_copy": "copy", "aten::copy_": "copy"}
_WAITS = {
    "aten::_local_scalar_dense": "to read a value of the device: `.item()`, `float()`, `if`",
    "aten::_to_copy": "for a copy to the host: `.cpu()`, `.to()`",
    "aten::copy_": "for a copy to the host: `copy_()`",
    "print": "to print a tensor of the device",
}


@dataclass(frozen=True)
class EventWords:
    """What is to be said of one event. Plain text, no full stops at the ends."""

    title: str
    """`aten::mm on stream 3`."""
    facts: tuple[str, ...]
    """A line each: when, how much, why then."""
    hazards: tuple[str, ...]
    """What is wrong with it, and what to do, a sentence each."""
    place: Place
    """The line that caused it."""
    earlier: Place
    """For a hazard: the line of the other one; else nowhere."""


class Cause(NamedTuple):
    """What something waited for."""

    lane: Lane
    number: int


def short_name(name: str) -> str:
    """An operator's name without what all of them begin with."""
    if name in _SHORT:
        return _SHORT[name]
    for prefix in ("aten::", "c10d::", "torch.cuda.", "torch."):
        name = name.removeprefix(prefix)
    return name.rstrip("_") or name


def words_of(picture: Picture, lane: Lane, number: int, times: str = "") -> EventWords:
    """The event with that number on a lane. `times` says how times are known: `modelled`, `measured`."""
    return _Teller(picture, lane, number, times).words()


def cause_of(picture: Picture, lane: Lane, number: int) -> Cause | None:
    """What work on a device, or a wait of the host, waited for: what was done last before it could begin, or go on."""
    rows, row = picture.rows(lane), int(lane.row[number])
    if lane.span[number] == Span.WAIT:
        since, until = int(rows.start[row]), int(rows.end[row])
    elif lane.span[number] in (Span.KERNEL, Span.COPY, Span.COLLECTIVE):
        since, until = int(rows.launched[row]), int(rows.start[row])
    else:
        return None
    if since < 0 or until <= since:
        return None
    best: tuple[int, bool, Cause] | None = None
    for other in picture.lanes:
        if other.process != lane.process or not len(other) or other.span[0] not in _WORK:
            continue
        seen = other.between(since, until)
        ends = other.end[seen]
        fits = (ends > since) & (ends <= until)
        if other is lane:
            fits &= np.arange(seen.start, seen.start + ends.size) != number
        if fits.any():
            at = int(np.argmax(np.where(fits, ends, -1)))
            found = (int(ends[at]), other is lane, Cause(other, seen.start + at))
            if best is None or found[:2] > best[:2]:
                best = found
    return best[2] if best else None


_WORK = (Span.KERNEL, Span.COPY, Span.COLLECTIVE)


class _Teller:
    def __init__(self, picture: Picture, lane: Lane, number: int, times: str) -> None:
        self._picture, self._lane, self._number = picture, lane, number
        self._rows: Rows = picture.rows(lane)
        self._row = int(lane.row[number])
        self._span = Span(int(lane.span[number]))
        self._times = times
        self._name = self._rows.names[self._rows.name[self._row]]

    def words(self) -> EventWords:
        hazard = int(self._lane.hazard[self._number])
        facts = [fact for fact in (*self._facts(), self._waited()) if fact]
        hazards: tuple[str, ...] = ()
        earlier = Place("", None)
        if hazard >= 0:
            group = hazard_of(self._rows, hazard)
            hazards, earlier = (sentence_of(self._rows, hazard), group.what_to_do.rstrip(".")), group.earlier
        place = self._rows.place_of(int(self._rows.place[self._row]))
        return EventWords(self._title(), tuple(facts), hazards, place, earlier)

    def _title(self) -> str:
        rows, row, name = self._rows, self._row, self._name
        match self._span:
            case Span.KERNEL | Span.COLLECTIVE:
                return f"{name} on {self._lane.title}"
            case Span.COPY | Span.HOST_COPY:
                held = ", and the host is held" if self._span is Span.HOST_COPY else ""
                return f"Copy of {size(int(rows.size[row]))} {self._direction()}{held}"
            case Span.WAIT:
                return f"The host waits {_WAITS.get(name, f'in {name}')}"
            case Span.COMPUTE:
                return f"{name} on the CPU"
            case Span.LAUNCH:
                what = f"a copy {self._direction()}" if self._is_copy else name
                return f"Launch of {what}"
            case Span.RANGE:
                return f"Range {name}"
            case Span.HAZARD:
                return f"Hazard: {name}"
            case _:
                return f"Out of memory: {size(int(rows.size[row]))} asked for on {rows.devices[rows.device[row]]}"

    def _facts(self) -> list[str]:
        rows, row = self._rows, self._row
        match self._span:
            case Span.KERNEL:
                return [self._when(), self._work()]
            case Span.COLLECTIVE:
                return [self._when(), f"{size(int(rows.size[row]))} sent{self._rate()}"]
            case Span.COPY | Span.HOST_COPY:
                return [self._when(), self._copied(), self._again()]
            case Span.LAUNCH:
                return [self._launched()]
            case Span.HAZARD:
                return [f"Met at {self._at(int(rows.launched[row]))}"]
            case Span.OUT_OF_MEMORY:
                allocated = size(int(rows.allocated[row]))
                return [f"At {self._at(int(rows.launched[row]))}, when {allocated} were allocated"]
            case Span.COMPUTE:
                return [self._when(), self._work()]
            case _:
                return [self._when()]

    @property
    def _is_copy(self) -> bool:
        return bool(self._rows.kind[self._row] == Kind.TRANSFER.number)

    def _direction(self) -> str:
        rows, row = self._rows, self._row
        ends = [rows.devices[rows.source[row]], rows.devices[rows.target[row]]]
        source, target = ("the host" if one == "cpu" else one for one in ends)
        return f"from {source} to {target}"

    def _at(self, moment: int) -> str:
        return duration(moment - self._picture.begin)

    def _when(self) -> str:
        start, end = int(self._lane.start[self._number]), int(self._lane.end[self._number])
        whole = (end - start) / (self._picture.finish - self._picture.begin)
        part = f", {share(whole)} of the whole" if whole >= 0.001 else ""
        known = f" ({self._times})" if self._times else ""
        begin = self._picture.begin
        return f"{span_words(start - begin, end - begin)}: {duration(end - start)}{known}{part}"

    def _work(self) -> str:
        rows, row = self._rows, self._row
        taken = int(rows.duration[row])
        words = []
        if rows.size[row]:
            moved = int(rows.size[row])
            words.append(f"{size(moved)} in and out{_bracket(bandwidth(moved, taken))}")
        if rows.flops[row]:
            done = float(rows.flops[row])
            words.append(f"{operations(done)}{_bracket(speed(done, taken))}")
        if dtype := rows.dtype_of(row):
            words.append(dtype)
        return ", ".join(words)

    def _rate(self) -> str:
        return _bracket(bandwidth(int(self._rows.size[self._row]), int(self._rows.duration[self._row])))

    def _copied(self) -> str:
        rows, row = self._rows, self._row
        rate = bandwidth(int(rows.size[row]), int(rows.duration[row]))
        device = rows.devices[rows.device[row]]
        stream = int(rows.stream[row])
        where = "the default stream" if stream == 0 else f"stream {stream}"
        if rows.asynchronous[row]:
            how = "asynchronous: the host goes on meanwhile"
        elif self._lane.kind is LaneKind.TO_HOST:
            how = "the host waits for it"
        else:
            how = "the host is held: not pinned, or without non_blocking"
        return ", ".join(filter(None, [rate, f"on {where} of {device}", how]))

    def _again(self) -> str:
        partner = int(self._rows.partner[self._row])
        if partner < 0:
            return ""
        place = self._rows.place_of(int(self._rows.place[partner]))
        return f"The same bytes were copied before, at {place}"

    def _launched(self) -> str:
        rows, row = self._rows, self._row
        launched = int(rows.launched[row])
        if not rows.timed[row]:
            return f"Done at {self._at(launched)}; when it ran is not known"
        later = int(rows.start[row]) - launched
        when = f"{duration(later)} later" if later > 0 else "at once"
        return f"Done at {self._at(launched)}; it begins {when}, and takes {duration(int(rows.duration[row]))}"

    def _waited(self) -> str:
        rows, row = self._rows, self._row
        if self._span is Span.WAIT:
            cause = cause_of(self._picture, self._lane, self._number)
            if cause is None:
                return "There was nothing left to wait for"
            before = cause_of(self._picture, *cause) if cause.lane.kind is LaneKind.TO_HOST else None
            of_it = f", which waited for {self._told(before)}" if before else ""
            return f"Waited for {self._told(cause)}{of_it}"
        if self._span not in _WORK:
            return ""
        launched, start = int(rows.launched[row]), int(rows.start[row])
        if launched < 0:
            return ""
        if start <= launched:
            return f"Launched at {self._at(launched)}, began at once"
        words = f"Launched at {self._at(launched)}, waited {duration(start - launched)}"
        cause = cause_of(self._picture, self._lane, self._number)
        if cause is None:
            ranks = " for the other ranks" if self._span is Span.COLLECTIVE else ""
            return words + ranks
        return f"{words} for {self._told(cause)}"

    def _told(self, cause: Cause) -> str:
        """`aten::mm on stream 3 (line 12)`."""
        lane, number = cause
        rows, row = self._picture.rows(lane), int(lane.row[number])
        teller = _Teller(self._picture, lane, number, "")
        what = f"the copy {teller._direction()}" if teller._is_copy else teller._name
        where = "" if teller._is_copy else " before it" if lane is self._lane else f" on {lane.title}"
        place = rows.place_of(int(rows.place[row]))
        return f"{what}{where}" + (f" ({place})" if place.line is not None else "")


def span_words(start: int, end: int) -> str:
    """`62.101 to 62.116 ms`: as many digits as it takes to tell the two apart."""
    unit, worth = next(((unit, worth) for unit, worth in UNITS if end >= worth), ("ns", 1))
    digits, least = 0, worth
    while least > 1 and least * 20 > end - start:
        digits, least = digits + 1, least // 10
    digits = max(digits, 0 if worth == 1 else 1)
    return f"{start / worth:,.{digits}f} to {end / worth:,.{digits}f} {unit}"


def _bracket(words: str) -> str:
    return f" ({words})" if words else ""
