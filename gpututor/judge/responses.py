"""Responses of workers and ranks, validated before the judge uses them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpututor.checks.model import Call, MemoryUse, Span, Unpriced
from gpututor.course.model import Exercise
from gpututor.errors import GradingError, NotGradableHere
from gpututor.protocol.decode import Decoder, facts_by_path
from gpututor.protocol.frames import Frame, FrameError
from gpututor.protocol.messages import LONGEST_NAME, MOST_NAMES, Failure, GivenFault, Sizes
from gpututor.text import escape_control_chars
from gpututor.trace.columns import Trace, TraceError
from gpututor.trace.events import Event
from gpututor.trace.serialization import trace_from_json

MAX_DEVICES = 64
MAX_DIGEST_CHARS = 64
_MAX_AMOUNT = 1 << 62
"""Nanoseconds or bytes that no run reaches."""


class WorkerProtocolError(GradingError):
    """The worker's report of its own failure. A submission may have written it."""

    def __init__(self, words: str, given: GivenFault | None = None) -> None:
        last = words.strip().rpartition("\n")[2]
        super().__init__(f"The worker broke: {last}", f"Run `gpututor doctor`.\n{words}")
        self.given = given
        """Fault of the exercise's `given.py`, if the worker names one."""


class SubmissionFailure(Exception):
    """The worker's report that the submission could not be loaded or called."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.trace: Trace | None = None
        """Trace of the failed call, if known."""


def expect(frame: Frame, event: str) -> None:
    """Raise `SubmissionFailure`, `WorkerProtocolError`, or `FrameError` for anything but `event`."""
    if frame.header.get("event") == "broken":
        words = str(frame.header.get("words"))[-4000:]
        raise WorkerProtocolError(escape_control_chars(words), GivenFault.from_json(frame.header.get("given")))
    if frame.header.get("event") == "failed":
        raise SubmissionFailure(Failure.from_json(frame.header.get("failure")))
    if frame.header.get("event") != event:
        raise FrameError(f"the worker answered {str(frame.header.get('event'))[:40]!r} instead of {event!r}")


def read_call(frame: Frame, drawn: dict[str, Any], source: str, sizes: Sizes, wanted: tuple[str, ...] = ()) -> Call:
    """Return one observed call, with the files `wanted`. Raises what `expect` raises, `ValueRefused`, `TraceError`."""
    header = frame.header
    try:
        expect(frame, "returned")
    except SubmissionFailure as failed:
        with contextlib.suppress(TraceError):  # the trace is for people only: no verdict depends on it
            failed.trace = trace_from_json(header.get("trace"), limit=sizes.events)
        raise
    trace = trace_from_json(header.get("trace"), limit=sizes.events)
    if trace.dropped:
        message = f"one call caused more than {sizes.events:,} device events; later events are not recorded"
        raise SubmissionFailure(Failure("refused", "", message, None, ""))
    files, folder, values = files_of(frame, wanted)
    decoder = Decoder(values)
    output = decoder.unpack(header.get("output"))
    return Call(
        drawn=drawn,
        arguments=facts_by_path(header.get("arguments")),
        output=output,
        state=decoder.unpack(header["state"]) if "state" in header else None,
        trace=trace,
        return_line=_line(header.get("line"), source),
        span=_span(header.get("span")),
        unpriced=_unpriced(header.get("unpriced"), source),
        memory=_memory(header.get("memory")),
        before=_digests(header.get("before")),
        after=_digests(header.get("after")),
        fp32_precision=str(header.get("fp32_precision"))[:20],
        files=files,
        folder=folder,
    )


def files_of(frame: Frame, wanted: tuple[str, ...]) -> tuple[dict[str, bytes], dict[str, str], tuple[bytes, ...]]:
    """Return the files of an answer, the listing of their folder, and the buffers that are not files."""
    names = _names_of_files(frame.header.get("files", []), wanted, len(frame.buffers))
    values = len(frame.buffers) - len(names)
    files = dict(zip(names, frame.buffers[values:], strict=True))
    return files, _folder(frame.header.get("folder", {})), frame.buffers[:values]


def _span(data: object) -> Span:
    fields = _object(data, {"started", "returned", "finished"})
    span = Span(*(_amount(fields[name]) for name in ("started", "returned", "finished")))
    if not span.started <= span.returned <= span.finished:
        raise FrameError("a call that ended before it began")
    return span


def _unpriced(data: object, source: str) -> Unpriced:
    fields = _object(data, {"nanoseconds", "line"})
    return Unpriced(_amount(fields["nanoseconds"]), _line(fields["line"], source))


def _line(line: object, source: str) -> int | None:
    return line if type(line) is int and 0 < line <= source.count("\n") + 1 else None


_MEMORY = ("before", "peak", "after")
_MEMORY_IF_KNOWN = ("left", "reserved", "reserved_peak", "largest_free")
"""Fields of `MemoryUse`."""


def _memory(data: object) -> dict[str, MemoryUse]:
    if not isinstance(data, dict) or len(data) > MAX_DEVICES:
        raise FrameError("the memory of a call must be an object")
    memory: dict[str, MemoryUse] = {}
    for device, use in data.items():
        fields = _object(use, {*_MEMORY, *_MEMORY_IF_KNOWN})
        before, peak, after = (_amount(fields[name]) for name in _MEMORY)
        others = {name: None if fields[name] is None else _amount(fields[name]) for name in _MEMORY_IF_KNOWN}
        memory[str(device)[:40]] = MemoryUse(before, peak, after, **others)
    return memory


def _digests(data: object) -> dict[str, str]:
    if not isinstance(data, dict) or not all(
        isinstance(digest, str) and len(digest) <= MAX_DIGEST_CHARS for digest in data.values()
    ):
        raise FrameError("digests must be an object of texts")
    return {str(path): digest for path, digest in data.items()}


def _names_of_files(data: object, wanted: tuple[str, ...], buffers: int) -> list[str]:
    if not isinstance(data, list) or not all(isinstance(name, str) and name in wanted for name in data):
        raise FrameError("files that were not requested")
    if len(set(data)) != len(data) or len(data) > buffers:
        raise FrameError("a file is listed twice, or its content is missing")
    return data


def _folder(data: object) -> dict[str, str]:
    if not isinstance(data, dict) or len(data) > MOST_NAMES or not all(isinstance(kind, str) for kind in data.values()):
        raise FrameError("the listing of a folder must be names with kinds of files")
    return {name[:LONGEST_NAME]: escape_control_chars(kind[:LONGEST_NAME]) for name, kind in data.items()}


def _object(data: object, names: set[str]) -> dict[str, Any]:
    if not isinstance(data, dict) or set(data) != names:
        raise FrameError(f"expected an object with {', '.join(sorted(names))}")
    return data


def _amount(value: object) -> int:
    if type(value) is not int or not 0 <= value < _MAX_AMOUNT:
        raise FrameError("an impossible amount")
    return value


DEADLINE_SHARE = 0.85
"""Share of the time limit after which the worker reports hanging ranks. At the limit, the judge stops the worker."""
_NOT_MERGED = ("kind", "name", "device", "partner")


def rank_fields(exercise: Exercise) -> dict[str, Any]:
    """Return the fields of `load` for several processes. Raises `NotGradableHere` if a fork after torch is unsafe."""
    if exercise.kind != "processes":
        return {}
    if sys.platform != "linux":
        raise NotGradableHere("Exercises in several processes are graded on Linux only.", "Use a machine with Linux.")
    return {"processes": exercise.processes, "within_s": DEADLINE_SHARE * exercise.limits.wall_s}


def read_ranks(
    frame: Frame, drawn: dict[str, Any], source: str, sizes: Sizes, wanted: tuple[str, ...], processes: int
) -> Call:
    """Return the calls of all ranks, merged into one call. Raises what `read_call` raises."""
    expect(frame, "returned")
    headers, counts = frame.header.get("ranks"), frame.header.get("buffers_of")
    files, folder, values = files_of(frame, wanted)
    if not isinstance(headers, list) or not all(isinstance(header, dict) for header in headers):
        raise FrameError("the answers of ranks must be a list of objects")
    if not isinstance(counts, list) or not all(type(count) is int and count >= 0 for count in counts):
        raise FrameError("the buffers of ranks must be counted")
    if not len(headers) == len(counts) == processes or sum(counts) != len(values):
        raise FrameError(f"not the answers of {processes} ranks")
    calls = []
    for header, count in zip(headers, counts, strict=True):
        call = read_call(Frame(header, values[:count]), drawn, source, sizes)
        calls.append(replace(call, group_left=header.get("group_left") is True))
        values = values[count:]
    return replace(merge_ranks(calls), files=files, folder=folder)


def merge_ranks(calls: Sequence[Call]) -> Call:
    """Merge the calls of all ranks: results as a list by rank, paths of arguments prefixed with the rank.

    Memory is summed by device, because ranks may share a device. Each rank has its own clock; collectives align them.
    """
    return Call(
        drawn=calls[0].drawn,
        arguments=_prefix_by_rank([call.arguments for call in calls]),
        output=[call.output for call in calls],
        state=[call.state for call in calls],
        trace=_merge_traces([call.trace for call in calls]),
        return_line=next((call.return_line for call in calls if call.return_line), None),
        span=Span(
            min(call.span.started for call in calls),
            max(call.span.returned for call in calls),
            max(call.span.finished for call in calls),
        ),
        unpriced=max((call.unpriced for call in calls), key=lambda work: work.nanoseconds),
        memory={device: _sum_memory([call.memory.get(device) for call in calls]) for device in calls[0].memory},
        before=_prefix_by_rank([call.before for call in calls]),
        after=_prefix_by_rank([call.after for call in calls]),
        ranks=tuple(calls),
    )


def _prefix_by_rank(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {f"{rank}.{path}": value for rank, part in enumerate(parts) for path, value in part.items()}


def _sum_memory(uses: Sequence[MemoryUse | None]) -> MemoryUse:
    known = [use for use in uses if use is not None]
    left = [use.left for use in known if use.left is not None]
    before, peak, after = (sum(getattr(use, name) for use in known) for name in ("before", "peak", "after"))
    return MemoryUse(before, peak, after, sum(left) if left else None)


def _merge_traces(traces: Sequence[Trace]) -> Trace:
    names = [name for name in Event._fields if name not in _NOT_MERGED]
    merged = Trace()
    for trace in traces:
        begin = len(merged)
        for event in trace:
            partner = -1 if event.partner < 0 else begin + event.partner
            columns = {name: getattr(event, name) for name in names}
            merged.add(event.kind, event.name, event.device, partner=partner, **columns)
    return merged
