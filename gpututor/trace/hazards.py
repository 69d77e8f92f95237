"""Hazards of a trace, grouped by the two lines that collide, with texts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gpututor.trace.arrays import Place, TraceArrays
from gpututor.trace.events import Kind

FREED_BEFORE_REPLAY = "freed before a replay"
_WORDS = {
    "read after write": "{later} reads what {earlier} writes on another stream",
    "write after read": "{later} writes what {earlier} reads on another stream",
    "write after write": "{later} writes what {earlier} writes on another stream",
    "freed in use": "{later} frees memory that {earlier} still uses on another stream",
    "graphs share a pool": "{later} replays a graph that uses the memory of the graph replayed by {earlier}",
    FREED_BEFORE_REPLAY: "{later} replays a graph that uses the memory of a tensor that was freed",
    "host read during copy": "{later} reads memory of the host that {earlier} may still write",
    "host write during copy": "{later} writes memory of the host that {earlier} may still use",
}
OUT_OF_BOUNDS = "access out of bounds"
UNWRITTEN = "read of unwritten memory"
SAME_ELEMENT = "two programs write one element"
_IN_KERNELS = {
    OUT_OF_BOUNDS: "{later} loads or stores outside of a tensor",
    UNWRITTEN: "{later} reads elements that nothing has written",
    SAME_ELEMENT: "{later} uses an element that another program of the kernel stores to, and nothing orders them",
}
"""Mistakes within one kernel; the other hazards are between two pieces of work."""
_HOST_WAITS = "Copy without `non_blocking=True`, or wait before the host touches it: `torch.cuda.synchronize()`, or\
 `event.synchronize()` of an event after the copy."
_ADVICE = {
    "host read during copy": _HOST_WAITS,
    "host write during copy": _HOST_WAITS,
    "graphs share a pool": "Replay them on one stream, or capture each with a pool of its own.",
    FREED_BEFORE_REPLAY: "Keep the tensors that the graph uses, and copy new values into them: `tensor.copy_(values)`.",
    OUT_OF_BOUNDS: "Mask the lanes beyond the end: `tl.load(pointers, mask=offsets < n)`, and mask the store, too.",
    UNWRITTEN: "Write the elements first, or make the tensor with `torch.zeros`.",
    SAME_ELEMENT: "Give each program elements of its own, or use `tl.atomic_add` and the like.",
    "freed in use": "Call `tensor.record_stream(stream)` for the other stream, or keep the tensor until it is done.",
}
_OF_MEMORY = ("freed in use", "graphs share a pool", FREED_BEFORE_REPLAY)
"""Hazards of memory that has a new owner; other hazards lack a wait."""
_WAIT = (
    "Let the later stream wait: `stream.wait_stream(other)`, or `other.record_event()` and `stream.wait_event(event)`."
)


@dataclass(frozen=True, slots=True)
class HazardGroup:
    """The hazards of one kind between the same two lines."""

    name: str
    device: str
    place: Place
    """The line that launched the later work."""
    earlier: Place
    """The line that launched the earlier work; `NOWHERE` if unknown."""
    earlier_name: str
    """The operator of the earlier work; empty if unknown."""
    count: int

    @property
    def is_in_kernel(self) -> bool:
        """True for a mistake within one kernel, which needs no second stream."""
        return self.name in _IN_KERNELS

    @property
    def is_of_memory(self) -> bool:
        """True if the memory has a new owner too early: waiting for the work before it does not help."""
        return self.name in _OF_MEMORY

    @property
    def sentence(self) -> str:
        """The hazard in a sentence without a full stop."""
        if self.is_in_kernel:
            where = str(self.place) if self.place.line is not None else "a kernel outside your files"
            return _IN_KERNELS[self.name].format(later=where)
        earlier = self.earlier_name or "other work"
        if self.earlier.line is not None:
            earlier = f"{earlier} at {self.earlier}"
        words = _WORDS.get(self.name, f"{{later}} and {{earlier}} collide ({self.name})")
        ending = "nothing says which comes first"
        if self.name.startswith("host "):
            ending = "the host does not wait for it"
        elif self.name == FREED_BEFORE_REPLAY:
            ending = "other tensors may use it now"
        later = str(self.place) if self.place.line is not None else "code outside your files"
        return f"{words.format(later=later, earlier=earlier)}, and {ending}"

    @property
    def what_to_do(self) -> str:
        return _ADVICE.get(self.name, _WAIT)


def hazard_of(rows: TraceArrays, row: int) -> HazardGroup:
    """Return the hazard in row `row` as a group."""
    return _group(rows, _key(rows, row), 1)


def hazards_of(rows: TraceArrays) -> tuple[HazardGroup, ...]:
    """Return the hazards in groups, in the order of their first occurrences."""
    counts = Counter(_key(rows, int(row)) for row in rows.of(Kind.HAZARD).nonzero()[0])
    return tuple(_group(rows, key, count) for key, count in counts.items())


def _key(rows: TraceArrays, row: int) -> tuple[int, ...]:
    """Return the numbers of name, device, later place, earlier place and earlier operator."""
    partner = int(rows.partner[row])
    earlier = (int(rows.place[partner]), int(rows.name[partner])) if partner >= 0 else (0, 0)
    return int(rows.name[row]), int(rows.device[row]), int(rows.place[row]), *earlier


def _group(rows: TraceArrays, key: tuple[int, ...], count: int) -> HazardGroup:
    name, device, place, earlier, earlier_name = key
    places = rows.place_of(place), rows.place_of(earlier)
    return HazardGroup(rows.names[name], rows.devices[device], *places, rows.names[earlier_name], count)
