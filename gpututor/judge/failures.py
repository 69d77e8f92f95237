"""Failures of loading and calling a submission, in words."""

from __future__ import annotations

from dataclasses import dataclass

from gpututor.checks.model import Finding
from gpututor.course.model import Exercise
from gpututor.grading.report import Outcome
from gpututor.judge.channel import DeadlinePassed
from gpututor.judge.responses import WorkerProtocolError
from gpututor.judge.workers.worker import LimitExceeded, Worker
from gpututor.protocol.frames import EndOfFrames, FrameError
from gpututor.protocol.messages import LONGEST_MIXED, SENT_BY_OTHERS, Failure, FailureKind, mixes_devices, signal_name
from gpututor.protocol.values import ValueRefused
from gpututor.trace.arrays import TraceArrays
from gpututor.trace.columns import Trace, TraceError
from gpututor.trace.events import Kind
from gpututor.trace.formatting import size
from gpututor.trace.memory import LiveAllocation, MemoryTimeline

_LISTED = 3


def _largest_allocations(trace: Trace) -> str:
    """Describe what held memory when it last ran out, largest lines first; empty if it never ran out."""
    rows = TraceArrays(trace)
    refused = rows.of(Kind.OUT_OF_MEMORY).nonzero()[0]
    if not refused.size:
        return ""
    device = rows.devices[int(rows.device[refused[-1]])]
    timeline = MemoryTimeline(rows, device)
    refusal = timeline.refused[-1]
    allocations = timeline.held(refusal.number)
    earlier_bytes = refusal.allocated - sum(allocation.size_bytes for allocation in allocations)
    parts = [_describe_allocation(allocation) for allocation in allocations[:_LISTED]]
    other_bytes = sum(allocation.size_bytes for allocation in allocations[_LISTED:])
    parts += [f"{size(other_bytes)} from other lines"] if other_bytes else []
    parts += [f"{size(earlier_bytes)} from before the call"] if earlier_bytes > 0 else []
    if not parts:
        return f"{device} was empty when memory ran out: {size(refusal.size_bytes)} alone is more than it has."
    return f"When memory ran out, {device} held {size(refusal.allocated)}: {', '.join(parts)}."


def _describe_allocation(allocation: LiveAllocation) -> str:
    times = f" ({allocation.count:,} tensors)" if allocation.count > 1 else ""
    where = "from outside your file" if allocation.place.line is None else f"from line {allocation.place.line}"
    return f"{size(allocation.size_bytes)} {where}{times}"


@dataclass(frozen=True)
class RunFailure:
    """Reason why a run ended before it could be judged."""

    stage: str
    """The failed built-in check: `loads` or `runs`."""
    outcome: Outcome
    finding: Finding
    traceback: str = ""
    worker_is_usable: bool = False
    """True if the worker can run the next scenario."""
    worker_broke: WorkerProtocolError | None = None
    """The worker's own error, as it reports it."""
    exited: bool = False
    """True if the submission, or the exercise's `given.py`, ended the worker's process."""
    killed: bool = False
    """True if a signal ended the process, and something other than the submission may have sent it."""


def stage_sentence(stage: str, exercise: Exercise) -> str:
    """Return the sentence of a built-in check."""
    if stage == "loads":
        return f"The file loads and defines {exercise.entry}()" if exercise.entry else "The file is a script in Python"
    return f"{exercise.entry}() runs to its end" if exercise.entry else "The script runs to its end"


def _end(exercise: Exercise) -> str:
    return f"{exercise.entry}() runs to its end" if exercise.entry else "the script runs to its end"


def from_failure(
    failure: Failure, stage: str, exercise: Exercise, source: str, which: str, trace: Trace | None = None
) -> RunFailure:
    """Describe a failure that the worker reported. `which` names the call; `trace` is the call's trace, if known."""
    line = failure.line if failure.line and failure.line <= source.count("\n") + 1 else None
    got = ": ".join(filter(None, (failure.type_name, failure.message)))
    if line:
        # More words follow: drop a full stop, keep an ellipsis.
        got = f"{got if got.endswith('..') else got.removesuffix('.')}, at line {line}"
    got += f": {failure.tensors}{which}" if failure.tensors else which
    outcome, expected, why, advice = _WORDS[failure.kind]
    words = {"entry": exercise.entry, "end": _end(exercise)}
    specific = _advice_for(failure) if failure.kind in ("exception", "syntax") else ""
    advice = (specific or advice).format(**words)
    if failure.kind == "out of memory" and trace is not None:
        advice = f"{_largest_allocations(trace)} {advice}".lstrip()
    finding = Finding(expected.format(**words), got, line, why, advice)
    killed = failure.kind == "rank killed"
    return RunFailure(stage, outcome, finding, failure.traceback, worker_is_usable=True, killed=killed)


_RANK_GONE = (
    Outcome.CRASHED,
    "every rank to return its result",
    "A rank that is gone leaves the others waiting.",
    "Compare what this rank does with what the other ranks do.",
)
_WORDS: dict[FailureKind, tuple[Outcome, str, str, str]] = {
    "syntax": (
        Outcome.ERROR,
        "valid Python",
        "Python cannot run the file until this line is valid.",
        "Look at that line and at those before it: a bracket, a quote, a colon or the indentation.",
    ),
    "missing": (
        Outcome.ERROR,
        "a function {entry}()",
        "The exercise calls your function by its name.",
        "Keep `def {entry}(...)` as the starter has it.",
    ),
    "exit": (
        Outcome.ERROR,
        "{end}",
        "exit() ends the whole program, so the checks after it cannot run.",
        "Reach the end of the code instead: return a value, or leave out the exit.",
    ),
    "out of memory": (
        Outcome.OUT_OF_MEMORY,
        "the work to fit in memory",
        "A device has a fixed amount of memory.",
        "Look for a tensor that is larger than necessary, or kept longer than necessary.",
    ),
    "refused": (
        Outcome.FAILED,
        "plain tensors and Python values as a result",
        "The grader has to read the result to compare it.",
        "Return plain tensors, numbers, lists and dicts, of the size that the task asks for.",
    ),
    "unsupported": (
        Outcome.ERROR,
        "something that the virtual GPU can do",
        "The virtual GPU refuses calls that it cannot run as CUDA does.",
        "Use another call that does the same.",
    ),
    "rank ended": _RANK_GONE,
    "rank killed": _RANK_GONE,
    "rank hangs": (
        Outcome.TIMEOUT,
        "every rank to return in time",
        "A collective ends only when all ranks of its group have called it.",
        "Let all ranks make the same collective calls, in the same order; look for one inside `if rank == 0`.",
    ),
    "exception": (
        Outcome.ERROR,
        "no error",
        "Without a result, the other checks cannot run.",
        "Read the message and the line, and print what that line uses; `gpututor run` shows it without grading.",
    ),
}
"""Outcome, expectation, reason and advice for each kind of failure."""


def _advice_for(failure: Failure) -> str:
    """Return advice for an error whose text shows its cause; empty for any other error."""
    if failure.type_name == "NotImplementedError" and not failure.message:
        return _NOT_WRITTEN
    for type_name, words, advice in _ADVICE:
        if failure.type_name == type_name and words in failure.message[:LONGEST_MIXED]:
            return advice
    return _DEVICES if mixes_devices(failure.type_name, failure.message) else ""


_DEVICES = "Check which tensors that line combines, and which device each of them is on."
_MAP_LOCATION = "The file remembers devices. Tell torch.load where to put its tensors: map_location=…"
_SPELLING = "Check the spelling, and what the name refers to at that line."
_ADVICE = (
    ("ModuleNotFoundError", "", "Remove the import, or fix its spelling: a graded run has Python, PyTorch and NumPy."),
    ("EOFError", "reading a line", "There is no keyboard in a graded run: use the arguments instead of input()."),
    ("NameError", "", _SPELLING),
    ("AttributeError", "", _SPELLING),
    ("TabError", "", "The line mixes tabs and spaces: use four spaces for each level."),
    ("IndentationError", "", "Each level is four spaces; look at the line before it too."),
    ("RuntimeError", "torch.load with map_location", _MAP_LOCATION),
    ("TritonMemoryError", " goes to ", "Give the load and the store a mask of the lanes that may be accessed."),
    ("TritonMemoryError", "nothing has written", "Write these elements first, or make the tensor with torch.zeros."),
    ("TritonMemoryError", "and so does", "Compute the offsets from tl.program_id, so that each program has its own."),
    ("KernelDoesNotEnd", "", "Look at the loop on that line: does its condition change?"),
    ("RecursionError", "", "The function calls itself endlessly: when should it stop?"),
)
"""Type of an error, part of its message, and advice: only errors whose text shows their cause."""
_NOT_WRITTEN = "The starter raises this error until you replace it with your code."


REQUEST_ERRORS = (DeadlinePassed, LimitExceeded, WorkerProtocolError, FrameError, ValueRefused, TraceError)


def from_error(error: Exception, stage: str, exercise: Exercise, worker: Worker, file_name: str) -> RunFailure:
    """Describe one of `REQUEST_ERRORS`. Raises `WorkerLost` if the worker is gone with its fork server."""
    match error:
        case DeadlinePassed():
            line, limit_s = worker.stack_line(file_name), exercise.limits.wall_s
            finding = Finding(
                f"an end within {limit_s:g} s",
                f"still running after {limit_s:g} s{f', at line {line}' if line else ''}; it was stopped",
                line,
                "A run that does not end cannot be judged.",
                "Look for a loop whose condition never becomes false, or for far too much work. "
                "If the computer is busy, run again.",
            )
            return RunFailure(stage, Outcome.TIMEOUT, finding)
        case LimitExceeded():
            return _limit_exceeded(stage, error)
        case EndOfFrames():
            return _exited(stage, exercise, worker.exit_status())
        case WorkerProtocolError():
            finding = Finding(
                _end(exercise),
                "the worker failed during the run; with the exercise's own solution it does not",
                None,
                "Either your code does something that the grader cannot handle, or it changed the grader.",
                "Do not change the grader's own code. If your file does not, report this with your file.",
            )
            return RunFailure(stage, Outcome.NEEDS_REVIEW, finding, str(error), worker_broke=error)
    finding = Finding(
        _end(exercise),
        f"the worker's answer could not be read: {str(error)[:300]}",
        None,
        "The grader has to read the result to compare it.",
        "Do not use the grader's own connection, and return plain values.",
    )
    return RunFailure(stage, Outcome.NEEDS_REVIEW, finding)


def _limit_exceeded(stage: str, over: LimitExceeded) -> RunFailure:
    outcome, why = Outcome.ERROR, "gpututor's own processes need a share of the machine too."
    match over.resource:
        case "memory":
            outcome = Outcome.OUT_OF_MEMORY
            limit, amount = f"{over.limit / 2**30:.3g} GiB of the machine's memory", f"{over.amount / 2**30:.3g} GiB"
            why = "A machine without free memory stops responding, with everything that runs on it."
            advice = "Look for a tensor that is larger than necessary, or a list that grows with each step."
        case "scratch bytes":
            limit, amount = f"{over.limit >> 20} MiB on the disk", f"{over.amount >> 20} MiB"
            advice = "Write less, or remove what is no longer needed."
        case "scratch files":
            limit, amount = f"{over.limit:,} files and folders", "more"
            advice = "Write fewer files, or remove those that are no longer needed."
        case _:
            limit, amount = f"{over.limit} {over.resource} at one time", str(over.amount)
            advice = f"Look for a loop that starts {over.resource} without waiting for them."
    return RunFailure(stage, outcome, Finding(f"at most {limit}", f"{amount}; it was stopped", None, why, advice))


def _exited(stage: str, exercise: Exercise, status: int) -> RunFailure:
    """Describe a process that ended during the run; `status` is its exit code, or minus a signal's number."""
    if status < 0:
        finding = Finding(
            _end(exercise),
            f"the process was ended by {signal_name(-status)}",
            None,
            "A crash ends the whole process.",
            "Look for huge allocations, endless recursion, or os.kill.",
        )
        return RunFailure(stage, Outcome.CRASHED, finding, killed=-status in SENT_BY_OTHERS)
    finding = Finding(
        _end(exercise),
        f"the code ended the whole process (exit status {status})",
        None,
        "A function that ends the process cannot return a result.",
        "Remove os._exit; return a value instead.",
    )
    return RunFailure(stage, Outcome.ERROR, finding, exited=True)
