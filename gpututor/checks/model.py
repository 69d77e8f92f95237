"""Checks, what they find, and the runs and calls that they judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from gpututor.checks.authors import check_fits, fault_of
from gpututor.checks.python_syntax import return_line
from gpututor.checks.trees import Difference, joined
from gpututor.errors import CourseError
from gpututor.grading.report import Status
from gpututor.hardware.scenario import Scenario
from gpututor.protocol.values import ObservedModule, ObservedTensor, TensorFact
from gpututor.text import truncate
from gpututor.trace.columns import Trace
from gpututor.trace.formatting import duration

if TYPE_CHECKING:
    from gpututor.checks.tolerances import Tolerance


Applies = Callable[["Machine"], bool] | str
CheckKind = Literal["values", "structure", "other"]
OF_RESULTS = ("structure", "value", "parity")
"""The `needs` of checks that tell nothing of a submission with a wrong result."""
_ONE_LINE = 100
_MOST_WORDS = 200
"""Characters."""


@dataclass(frozen=True)
class Machine:
    """The machine of a run."""

    scenario: Scenario
    device: str
    """Where work belongs: `cuda:0`, or `cpu` when there is no GPU."""
    virtual: bool
    gpu_name: str
    """The device's name, such as `Tesla T4`; empty without a device."""
    memory_bytes: int | None
    """Memory of each device; None without a device, or if unknown."""

    @property
    def gpus(self) -> int:
        return self.scenario.gpus

    @property
    def backends(self) -> tuple[str, ...]:
        return self.scenario.backends


@dataclass(frozen=True)
class Span:
    """When a call was, in whole nanoseconds of the machine's clock: the virtual one, or the host's on real devices."""

    started: int = 0
    """All devices were idle."""
    returned: int = 0
    """The function returned; devices may still have worked."""
    finished: int = 0
    """All devices were idle again."""

    @property
    def elapsed_s(self) -> float:
        """Seconds from the call until all devices were done."""
        return (self.finished - self.started) / 1e9


@dataclass(frozen=True)
class Unpriced:
    """Work of the host in a call that the virtual GPU's clock cannot price, such as NumPy's."""

    nanoseconds: int = 0
    """Measured processor time; not part of any `Span`."""
    line: int | None = None
    """The line before which most of it was, where that is known."""


@dataclass(frozen=True)
class MemoryUse:
    """What tensors held on one device around a call, in bytes as its allocator counts them."""

    before: int
    peak: int
    """The most during the call."""
    after: int
    """When the function had returned; its result is still held."""
    left: int | None = None
    """After the result was dropped and collected. Only known where a check wants `left`."""


@dataclass(frozen=True)
class Opened:
    """A file that a call wrote, as a fresh worker found it that has nothing else to do."""

    content: Any = None
    """Plain Python with `ObservedTensor` and its kin at the leaves."""
    places: tuple[str, ...] = ()
    """The devices that a checkpoint names: where its tensors lived when it was saved, such as `cuda:0`."""
    refusal: str = ""
    """Why it could not be opened, in words; empty when it could."""


@dataclass(frozen=True)
class SpeedLimit:
    """How long the submission may take, beside another file of the exercise that defines the same function."""

    baseline: str
    """The file's name in the exercise's folder."""
    at_most: float
    """The largest ratio of times, submission to baseline, on the virtual GPU's clock."""
    real_at_most: float | None = None
    """The same on real devices; None: it is not timed there."""
    least_bytes: Callable[[dict[str, Any]], float] | None = None
    """For one call's inputs: bytes that every solution must move; None: those of its result."""
    least_flops: Callable[[dict[str, Any]], float] | None = None
    """For one call's inputs: floating-point operations that every solution must do."""


@dataclass(frozen=True)
class Call:
    """One call of the learner's function."""

    drawn: dict[str, Any]
    """What was drawn for it: CPU tensors and plain values. Nobody may change them."""
    arguments: dict[str, TensorFact]
    """Each tensor among the arguments, by path, as it was after the call."""
    output: Any
    """What came back: plain Python with `ObservedTensor` and its kin at the leaves."""
    trace: Trace
    """What the devices did during the call."""
    return_line: int | None = None
    """The line at which the learner's function returned."""
    span: Span = field(default_factory=Span)
    unpriced: Unpriced = field(default_factory=Unpriced)
    memory: dict[str, MemoryUse] = field(default_factory=dict)
    """By device; the CPU is not among them."""
    before: dict[str, str] = field(default_factory=dict)
    """Each tensor among the arguments, by path: a digest of its shape, dtype and values before the call."""
    after: dict[str, str] = field(default_factory=dict)
    """The same after it."""
    fp32_precision: str = ""
    """`torch.backends.cuda.matmul.fp32_precision` after it: `tf32` where products of float32 may now use TF32."""
    state: Any = None
    """The arguments after the call, by name, if a check wants `arguments`: tensors, modules, optimizers as dicts."""
    files: dict[str, bytes] = field(default_factory=dict)
    """What the call wrote of the files that a check wants, by name; those that are not there are left out."""
    folder: dict[str, str] = field(default_factory=dict)
    """What lay in the scratch folder after the call, by name, where a check wants files: `a file`, `a link`, …"""
    opened: dict[tuple[str, str], Opened] = field(default_factory=dict)
    """The files that a check wants opened, by name and way; see `Check.opens`."""
    ranks: tuple[Call, ...] = ()
    """What each rank did by itself, where the function runs in several processes; then the rest is of all together."""
    group_left: bool = False
    """Of a rank: it returned without destroying its process group."""


@dataclass(frozen=True)
class Finding:
    """What a check found wrong."""

    expected: str
    got: str
    line: int | None = None
    why: str = ""
    advice: str = ""
    """Used when the author gave none."""
    status: Status = Status.FAILED
    """Also `TOO_SLOW`, `INCONCLUSIVE` (nobody can tell) or `NEEDS_REVIEW` (a person should look)."""


@dataclass(frozen=True)
class Spread:
    """A time in seconds for one call: the median, and between what the middle half of the measurements lies."""

    median_s: float
    low_s: float
    high_s: float

    def __str__(self) -> str:
        """`2.61 ms (2.58 ms to 2.70 ms)`"""
        low, high = duration(self.low_s * 1e9), duration(self.high_s * 1e9)
        middle = duration(self.median_s * 1e9)
        return middle if low == high else f"{middle} ({low} to {high})"


@dataclass(frozen=True)
class Timing:
    """What was measured on a real device beside one baseline."""

    decision: Status
    """`PASSED`, `TOO_SLOW`, `INCONCLUSIVE`, `NEEDS_REVIEW`, or `FAILED` where a timed result was wrong."""
    why: str = ""
    """For a decision that the ratio alone does not explain: in words."""
    ratio: float | None = None
    """The median over the pairs of the submission's time over the baseline's; None where no pair came to an end."""
    ratio_low: float = 0.0
    """The middle half of the ratios begins …"""
    ratio_high: float = 0.0
    """… and ends here."""
    submission: Spread | None = None
    baseline: Spread | None = None
    pairs: int = 0
    calls: int = 0
    """How many calls each timed batch had."""
    wrong: Finding | None = None
    """For `FAILED`, and where the code stopped: what was found."""

    @property
    def figures(self) -> str:
        """The ratio with its spread, and both absolute times with theirs; empty when nothing was measured."""
        if self.ratio is None:
            return ""
        spread = f"{self.ratio_low:.2f} to {self.ratio_high:.2f} in the middle half of {self.pairs} pairs"
        times = f"{self.submission} a call against {self.baseline}, measured"
        return f"{ratio_in_words(self.ratio)} ({spread}): {times}"


@dataclass(frozen=True)
class Run:
    """What was observed when a submission ran in one scenario."""

    machine: Machine
    calls: tuple[Call, ...]
    source: str
    entry: str
    repeated: tuple[tuple[Call, ...], ...] = ()
    """For each of `calls`, it and its repeats on the same inputs, as often as a check wants."""
    baselines: dict[str, tuple[Call, ...]] = field(default_factory=dict)
    """The same calls of a baseline, by its file's name; for speed limits only on the virtual GPU."""
    timings: dict[str, Timing] = field(default_factory=dict)
    """What was measured beside a baseline, by the name of the check. Only on real devices."""
    reference_flops: tuple[float, ...] = ()
    """Floating-point operations of the author's reference, by call; counted where a check is `timed`."""

    def line_of(self, call: Call) -> int | None:
        """The line at which a wrong result left the learner's function, else that of its last `return`."""
        return call.return_line or return_line(self.source, self.entry)

    def which(self, call: Call) -> str:
        """Words for one call, to be put behind a sentence: ` (call 2 of 3, with x of shape (7, 1))`."""
        position = next(position for position, other in enumerate(self.calls) if other is call)
        return call_in_words(position, len(self.calls), call.drawn)


@dataclass(frozen=True)
class Check:
    """One check. `find` returns the first thing that is wrong, or None."""

    name: str
    sentence: Callable[[Machine], str]
    find: Callable[[Run], Finding | None]
    needs: tuple[str, ...] = ()
    """Names of checks that must have passed, where the exercise has them."""
    why: str = ""
    advice: str = ""
    on: Applies = field(default="everywhere")
    points: float = 1.0
    """What passing it is worth; `with_points` changes it."""
    repeats: int = 1
    """How often each case has to be called with the same inputs."""
    wants: tuple[str, ...] = ()
    """What costs time and is only observed if a check wants it: `left` of `MemoryUse`, `arguments` for `Call.state`."""
    files: tuple[str, ...] = ()
    """Names of files, without folders, that are brought back after each call."""
    opens: tuple[tuple[str, str], ...] = ()
    """Which of `files` a fresh worker opens, and how: (name, `torch` or `safetensors`)."""
    speed: SpeedLimit | None = None
    baselines: tuple[str, ...] = ()
    """Files of the exercise's folder whose calls it needs beside the submission's, in `Run.baselines`."""
    timed: bool = False
    """It judges times: on the virtual GPU it is inconclusive where much of the work has no modelled price."""
    results_only: bool = False
    """It looks at nothing but inputs and results: timed calls, which nobody observes, are verified by it."""
    measured: Callable[[Run], str] | None = None
    """Figures to show when it has passed."""
    tolerance: Tolerance | None = None
    """What it allows, for a check of values: `tolerances` tries nonsense on it."""
    kind: CheckKind = "other"
    """`values`: right results pass it, and only right ones. `structure`: the form of results. `other`: all else.

    If a check of values fails in a scenario, all checks of another kind that passed there are held back. If a check of
    structure fails, the others that passed are held back too.
    """

    def applies(self, machine: Machine) -> bool:
        match self.on:
            case "everywhere":
                return True
            case "gpu":
                return machine.device != "cpu"
            case "no gpu":
                return machine.device == "cpu"
            case str():
                raise CourseError(f"check {self.name!r}: on={self.on!r}", 'Use "gpu", "no gpu" or a function.')
        return bool(self.on(machine))

    def with_points(self, points: float) -> Check:
        """The same check, worth so many points."""
        if not 0 < points < 1e6:
            raise CourseError(f"check {self.name!r}: {points} points", "Give it a number above 0.")
        return replace(self, points=points)

    def with_kind(self, kind: CheckKind) -> Check:
        """Return the same check as one of another kind."""
        if kind not in get_args(CheckKind):
            raise CourseError(f"check {self.name!r}: kind={kind!r}", f"Use one of {', '.join(get_args(CheckKind))}.")
        return replace(self, kind=kind)


def call_in_words(position: int, calls: int, drawn: dict[str, Any]) -> str:
    """Which call it was, when there are several, and what was passed: ` (call 2 of 3, with index=-1)`."""
    number = [f"call {position + 1} of {calls}"] if calls > 1 else []
    inputs = ", ".join(filter(None, [_input_in_words(name, value) for name, value in drawn.items()][:4]))
    words = ", ".join(number + ([f"with {inputs}"] if inputs else []))
    return f" ({words})" if words else ""


def ratio_in_words(ratio: float) -> str:
    return f"{ratio:.2f} × the baseline's time"


def _input_in_words(name: str, value: Any) -> str:
    match value:
        case torch.Tensor():
            return f"{name} of shape {tuple(value.shape)}"
        case bool() | int() | float() | None:
            return f"{name}={value}"
        case str():
            return f"{name}={value[:40]!r}"
    return ""


def tensors_by_path(output: Any) -> dict[str, ObservedTensor]:
    """Each tensor of a result by its path: `` for the whole, `0`, `weights`, `layers.0.bias`."""
    found: dict[str, ObservedTensor] = {}
    waiting: list[tuple[str, Any]] = [("", output)]
    while waiting:
        path, item = waiting.pop()
        match item:
            case ObservedTensor():
                found[path] = item
            case ObservedModule():
                waiting += [(joined(path, name), part) for name, part in item.tensors.items()]
            case dict():
                waiting += [(joined(path, key), part) for key, part in item.items()]
            case list() | tuple():
                waiting += [(joined(path, index), part) for index, part in enumerate(item)]
    return dict(sorted(found.items()))


def named(path: str) -> str:
    """Words for a path of a result."""
    return f"result[{path!r}]" if path and not path.isdigit() else f"result[{path}]" if path else "the result"


def expected_words(difference: Difference, describe: Callable[[Any], str], whole: Any) -> str:
    """What was expected: first the part that differs, where it would be lost in the whole."""
    words = describe(whole)
    if not difference.wanted and (len(words) <= _ONE_LINE or not difference.path):
        return words
    part = difference.wanted or describe(difference.expected)
    lead = f"{named(difference.path)} is {part}" if difference.path else part
    return f"{truncate(lead, _MOST_WORDS)}; the whole result: {truncate(words, _MOST_WORDS)}"


def count(number: int, word: str) -> str:
    """`1 copy`, `2 copies`, `no copies between devices`."""
    thing, between, rest = word.partition(" between ")
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}es" if thing.endswith("ch") else f"{thing}s"
    return f"{number or 'no'} {word if number == 1 else plural + between + rest}"


Reference = Callable[..., Any]


def run_reference(reference: Reference, drawn: dict[str, Any], *, in_float64: bool) -> Any:
    """`reference(**drawn)` on copies; with `in_float64`, floating tensors are widened first.

    Raises `CourseError` when the reference itself breaks: that is never the learner's fault.
    """
    arguments = {name: _copy(value, in_float64) for name, value in drawn.items()}
    check_fits(reference, f"({', '.join(arguments)})", **arguments)
    try:
        return reference(**arguments)
    except Exception as error:
        raise fault_of(error, lead="the reference failed: ") from error


def _copy(value: Any, in_float64: bool) -> Any:
    match value:
        case torch.Tensor():
            if in_float64 and value.is_floating_point():
                return value.detach().to(torch.float64, copy=True).requires_grad_(value.requires_grad)
            if in_float64 and value.is_complex():
                return value.detach().to(torch.complex128, copy=True).requires_grad_(value.requires_grad)
            return value.detach().clone().requires_grad_(value.requires_grad)
        case list():
            return [_copy(part, in_float64) for part in value]
        case tuple():
            return tuple(_copy(part, in_float64) for part in value)
        case dict():
            return {key: _copy(part, in_float64) for key, part in value.items()}
    return value
