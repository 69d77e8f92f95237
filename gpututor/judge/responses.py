"""Responses of workers and ranks, validated before the judge uses them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields, replace
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
MAX_DIGEST = 64
"""Characters."""
_LONGEST = 1 << 62
"""Nanoseconds or bytes that no run reaches."""


class WorkerProtocolError(GradingError):
    """The worker says that it broke. A submission may have written that too."""

    def __init__(self, words: str, given: GivenFault | None = None) -> None:
        last = words.strip().rpartition("\n")[2]
        super().__init__(f"The worker broke: {last}", f"Run `gpututor doctor`.\n{words}")
        self.given = given
        """The fault of the exercise's `given.py`, if the worker names one."""


class SubmissionFailed(Exception):
    """The worker says that the submission could not be loaded or called."""

    def __init__(self, failure: Failure, trace: Trace | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.trace = trace
        """What the devices did in the call that failed, where it is known."""


def expect(frame: Frame, event: str) -> None:
    """Raises `SubmissionFailed`, `WorkerBroke` for a worker that broke, or `FrameError` for anything but `event`."""
    if frame.header.get("event") == "broken":
        words = str(frame.header.get("words"))[-4000:]
        raise WorkerProtocolError(escape_control_chars(words), GivenFault.from_json(frame.header.get("given")))
    if frame.header.get("event") == "failed":
        raise SubmissionFailed(Failure.from_json(frame.header.get("failure")))
    if frame.header.get("event") != event:
        raise FrameError(f"the worker answered {str(frame.header.get('event'))[:40]!r} instead of {event!r}")


def read_call(frame: Frame, drawn: dict[str, Any], source: str, sizes: Sizes, wanted: tuple[str, ...] = ()) -> Call:
    """What was observed of one call, after which the files `wanted` are brought back.

    Raises what `expect` does, `ValueRefused` and `TraceError`.
    """
    header = frame.header
    try:
        expect(frame, "returned")
    except SubmissionFailed as failed:
        raise SubmissionFailed(failed.failure, _trace_of_failed(header, sizes)) from None
    line = header.get("line")
    trace = trace_from_json(header.get("trace"), limit=sizes.events)
    if trace.dropped:
        message = f"the devices did more than {sizes.events:,} things in one call; only these are written down"
        raise SubmissionFailed(Failure("refused", "", message, None, ""))
    files, folder, values = files_of(frame, wanted)
    unpacker = Decoder(values)
    output = unpacker.unpack(header.get("output"))
    return Call(
        drawn=drawn,
        arguments=facts_by_path(header.get("arguments")),
        output=output,
        state=unpacker.unpack(header["state"]) if "state" in header else None,
        trace=trace,
        return_line=_line(line, source),
        span=_span(header.get("span")),
        unpriced=_unpriced(header.get("unpriced"), source),
        memory=_memory(header.get("memory")),
        before=_digests(header.get("before")),
        after=_digests(header.get("after")),
        fp32_precision=str(header.get("fp32_precision"))[:20],
        files=files,
        folder=folder,
    )


def _trace_of_failed(header: dict[str, Any], sizes: Sizes) -> Trace | None:
    """For people to look at: no verdict depends on it, and one that cannot be read is none."""
    try:
        return trace_from_json(header.get("trace"), limit=sizes.events)
    except TraceError:
        return None


def files_of(frame: Frame, wanted: tuple[str, ...]) -> tuple[dict[str, bytes], dict[str, str], tuple[bytes, ...]]:
    """The files that came with an answer, what lay beside them, and the buffers that are not files."""
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


def _memory(data: object) -> dict[str, MemoryUse]:
    if not isinstance(data, dict) or len(data) > MAX_DEVICES:
        raise FrameError("the memory of a call must be an object")
    return {str(device)[:40]: _memory_use(use) for device, use in data.items()}


def _memory_use(data: object) -> MemoryUse:
    fields = _object(data, {"before", "peak", "after", "left"})
    left = fields["left"]
    before, peak, after = (_amount(fields[name]) for name in ("before", "peak", "after"))
    return MemoryUse(before, peak, after, None if left is None else _amount(left))


def _digests(data: object) -> dict[str, str]:
    if not isinstance(data, dict):
        raise FrameError("digests must be an object")
    for digest in data.values():
        if not isinstance(digest, str) or len(digest) > MAX_DIGEST:
            raise FrameError("this is no digest")
    return {str(path): digest for path, digest in data.items()}


def _names_of_files(data: object, wanted: tuple[str, ...], buffers: int) -> list[str]:
    if not isinstance(data, list) or not all(isinstance(name, str) and name in wanted for name in data):
        raise FrameError("files that nobody asked for")
    if len(set(data)) != len(data) or len(data) > buffers:
        raise FrameError("a file that is there twice, or without its content")
    return data


def _folder(data: object) -> dict[str, str]:
    if not isinstance(data, dict) or len(data) > MOST_NAMES or not all(isinstance(kind, str) for kind in data.values()):
        raise FrameError("what is in a folder must be names, and kinds of files")
    return {name[:LONGEST_NAME]: escape_control_chars(kind[:LONGEST_NAME]) for name, kind in data.items()}


def _object(data: object, names: set[str]) -> dict[str, Any]:
    if not isinstance(data, dict) or set(data) != names:
        raise FrameError(f"expected an object with {', '.join(sorted(names))}")
    return data


def _amount(value: object) -> int:
    if type(value) is not int or not 0 <= value < _LONGEST:
        raise FrameError("an amount that cannot be")
    return value


WITHIN = 0.85
"""Of the limit: ranks that hang are told apart before the worker as a whole is stopped."""
_TIMED = ("kind", "name", "device", "partner")


def rank_question(exercise: Exercise) -> dict[str, Any]:
    """What `load` says where the function is to run in several processes.

    Raises `NotGradableHere` where a process that has imported torch cannot be forked safely.
    """
    if exercise.kind != "processes":
        return {}
    if sys.platform != "linux":
        raise NotGradableHere("Exercises in several processes are graded on Linux only.", "Use a machine with Linux.")
    return {"processes": exercise.processes, "within_s": WITHIN * exercise.limits.wall_s}


def read_ranks(
    frame: Frame, drawn: dict[str, Any], source: str, sizes: Sizes, wanted: tuple[str, ...], processes: int
) -> Call:
    """One call in all ranks. Raises what `read_call` does."""
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
    return replace(together(calls), files=files, folder=folder)


def together(calls: Sequence[Call]) -> Call:
    """The calls of all ranks as one: results as a list in the order of ranks, paths of arguments begin with the rank.

    Memory is summed by device: the ranks share it. Their clocks agree, as far as they met.
    """
    return Call(
        drawn=calls[0].drawn,
        arguments=_by_rank([call.arguments for call in calls]),
        output=[call.output for call in calls],
        state=[call.state for call in calls],
        trace=_one_trace([call.trace for call in calls]),
        return_line=next((call.return_line for call in calls if call.return_line), None),
        span=Span(
            min(call.span.started for call in calls),
            max(call.span.returned for call in calls),
            max(call.span.finished for call in calls),
        ),
        unpriced=max((call.unpriced for call in calls), key=lambda work: work.nanoseconds),
        memory={device: _sum([call.memory.get(device) for call in calls]) for device in calls[0].memory},
        before=_by_rank([call.before for call in calls]),
        after=_by_rank([call.after for call in calls]),
        ranks=tuple(calls),
    )


def _by_rank(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {f"{rank}.{path}": value for rank, part in enumerate(parts) for path, value in part.items()}


def _sum(uses: Sequence[MemoryUse | None]) -> MemoryUse:
    known = [use for use in uses if use is not None]
    left = [use.left for use in known if use.left is not None]
    return MemoryUse(
        sum(use.before for use in known),
        sum(use.peak for use in known),
        sum(use.after for use in known),
        sum(left) if left else None,
    )


def _one_trace(traces: Sequence[Trace]) -> Trace:
    names = [field.name for field in fields(Event) if field.name not in _TIMED]
    made = Trace()
    for trace in traces:
        begin = len(made)
        for event in trace:
            partner = -1 if event.partner < 0 else begin + event.partner
            rest = {name: getattr(event, name) for name in names}
            made.add(event.kind, event.name, event.device, partner=partner, **rest)
    return made
