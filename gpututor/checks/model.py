"""Checks, their findings, and the observed runs and calls that checks judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from gpututor.checks.author_errors import check_fits, fault_of
from gpututor.checks.python_syntax import return_line
from gpututor.checks.trees import map_tensors
from gpututor.checks.trees import part_name as part_name  # for authors, see docs/authors/own-checks.md
from gpututor.checks.trees import tensors_by_path as tensors_by_path
from gpututor.errors import CourseError
from gpututor.grading.report import Status
from gpututor.hardware.scenario import Scenario
from gpututor.protocol.values import TensorFact
from gpututor.trace.columns import Trace
from gpututor.trace.formatting import duration

if TYPE_CHECKING:
    from gpututor.checks.tolerances import Tolerance


Applies = Callable[["Machine"], bool] | str
"""`everywhere`, `gpu`, `no gpu`, or a function."""
CheckKind = Literal["values", "structure", "other"]
OF_RESULTS = ("structure", "value", "parity")
"""`needs` of checks that mean nothing for a submission with a wrong result."""


@dataclass(frozen=True)
class Machine:
    """The machine of a run."""

    scenario: Scenario
    device: str
    """Device that work belongs on: `cuda:0`, or `cpu` without a GPU."""
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


def on_virtual_gpu(machine: Machine) -> bool:
    """Return True for virtual GPUs, whose traces contain more than those of real GPUs; a value for `on`."""
    return machine.virtual and machine.device != "cpu"


@dataclass(frozen=True)
class Span:
    """Start and end of a call in nanoseconds of the machine's clock: virtual, or the host's on real devices."""

    started: int = 0
    """Moment of the call; all devices were idle."""
    returned: int = 0
    """Moment at which the function returned; devices may still have worked."""
    finished: int = 0
    """Moment at which all devices were idle again."""

    @property
    def elapsed_s(self) -> float:
        """Seconds from the call until all devices were idle."""
        return (self.finished - self.started) / 1e9


@dataclass(frozen=True)
class Unpriced:
    """Host work in a call that the virtual GPU's clock cannot price, such as NumPy's."""

    nanoseconds: int = 0
    """Measured processor time; not part of any `Span`."""
    line: int | None = None
    """Line after most of the work; None if unknown."""


@dataclass(frozen=True)
class MemoryUse:
    """Bytes that tensors held on one device before, during and after a call, as its allocator counts them."""

    before: int
    peak: int
    after: int
    """Bytes when the function had returned; its result is still held."""
    left: int | None = None
    """Bytes after the result was dropped and collected; None unless a check wants `left`."""
    reserved: int | None = None
    """Bytes of PyTorch's segments when the function had returned; None on a real device."""
    reserved_peak: int | None = None
    """Most bytes of PyTorch's segments during the call; None on a real device."""
    largest_free: int | None = None
    """Bytes of the largest free block in these segments when the function had returned; None on a real device."""


@dataclass(frozen=True)
class Opened:
    """A file that a call wrote, as read by a fresh worker that runs nothing else."""

    content: Any = None
    """Plain Python with `ObservedTensor` and similar values at the leaves."""
    places: tuple[str, ...] = ()
    """Devices that a checkpoint names for its tensors, such as `cuda:0`."""
    refusal: str = ""
    """Reason why the file could not be opened; empty if it could."""


@dataclass(frozen=True)
class SpeedLimit:
    """Time limit relative to a baseline: another file of the exercise that defines the same function."""

    baseline: str
    """Name of the file in the exercise's folder."""
    at_most: float
    """Largest ratio of the submission's time to the baseline's, on the virtual GPU's clock."""
    real_at_most: float | None = None
    """Largest ratio on real devices; None if nothing is timed there."""
    least_bytes: Callable[[dict[str, Any]], float] | None = None
    """Bytes that every solution must move in a call with these inputs; None for the bytes of its result."""
    least_flops: Callable[[dict[str, Any]], float] | None = None
    """Floating-point operations that every solution must do in a call with these inputs."""


@dataclass(frozen=True)
class Call:
    """A call of the learner's function."""

    drawn: dict[str, Any]
    """Inputs as drawn: CPU tensors and plain values. Never changed."""
    arguments: dict[str, TensorFact]
    """Facts about each tensor among the arguments after the call, by path."""
    output: Any
    """Result: plain Python with `ObservedTensor` and similar values at the leaves."""
    trace: Trace
    """Device events during the call."""
    return_line: int | None = None
    """Line at which the learner's function returned."""
    span: Span = field(default_factory=Span)
    unpriced: Unpriced = field(default_factory=Unpriced)
    memory: dict[str, MemoryUse] = field(default_factory=dict)
    """Memory use by device, without the CPU."""
    before: dict[str, str] = field(default_factory=dict)
    """Digests of shape, dtype and values of each tensor among the arguments before the call, by path."""
    after: dict[str, str] = field(default_factory=dict)
    """Digests after the call."""
    fp32_precision: str = ""
    """`torch.backends.cuda.matmul.fp32_precision` after the call: `tf32` if float32 products may use TF32."""
    state: Any = None
    """Arguments after the call by name (tensors, modules, optimizers as dicts), if a check wants `arguments`."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Content of the files that a check wants and the call wrote, by name."""
    folder: dict[str, str] = field(default_factory=dict)
    """Kind of each entry in the scratch folder after the call (`a file`, `a link`, …), if a check wants files."""
    opened: dict[tuple[str, str], Opened] = field(default_factory=dict)
    """Files that a check wants opened, by name and format; see `Check.opens`."""
    ranks: tuple[Call, ...] = ()
    """Each rank's own call if the function runs in several processes; all other fields then cover all ranks."""
    group_left: bool = False
    """True if this rank returned without destroying its process group."""


@dataclass(frozen=True)
class Finding:
    """Reason why a check failed."""

    expected: str
    got: str
    line: int | None = None
    why: str = ""
    advice: str = ""
    """Advice to show if the author gave none."""
    status: Status = Status.FAILED
    """`FAILED`, `TOO_SLOW`, `INCONCLUSIVE` (cannot be measured here) or `NEEDS_REVIEW` (by a person)."""


def first_finding(findings: Iterable[Finding | None]) -> Finding | None:
    """Return the first finding that is not None; the rest is not evaluated."""
    return next(filter(None, findings), None)


def in_each_call(find: Callable[[Run, Call], Finding | None]) -> Callable[[Run], Finding | None]:
    """Return a `Check.find` that applies `find` to each call of a run, up to the first finding."""
    return lambda run: first_finding(find(run, call) for call in run.calls)


def in_each_repetition(find: Callable[[Run, Call], Finding | None]) -> Callable[[Run], Finding | None]:
    """Return a `Check.find` that applies `find` to each call and its repeats, up to the first finding."""
    return lambda run: first_finding(find(run, call) for calls in run.repetitions for call in calls)


@dataclass(frozen=True)
class Spread:
    """Seconds for one call: the median, and the quartiles on both sides of it."""

    median_s: float
    low_s: float
    high_s: float

    def __str__(self) -> str:
        """Return `2.61 ms (2.58 ms to 2.70 ms)`."""
        low, high = duration(self.low_s * 1e9), duration(self.high_s * 1e9)
        middle = duration(self.median_s * 1e9)
        return middle if low == high else f"{middle} ({low} to {high})"


@dataclass(frozen=True)
class Timing:
    """Measurement of a submission against one baseline on a real device."""

    decision: Status
    """`PASSED`, `TOO_SLOW`, `INCONCLUSIVE`, `NEEDS_REVIEW`, or `FAILED` if a timed result was wrong."""
    why: str = ""
    """Reason for a decision that the ratio alone does not explain."""
    ratio: float | None = None
    """Median over the pairs of the submission's time divided by the baseline's; None if no pair finished."""
    ratio_low: float = 0.0
    """Lower quartile of the ratios."""
    ratio_high: float = 0.0
    """Upper quartile of the ratios."""
    submission: Spread | None = None
    baseline: Spread | None = None
    pairs: int = 0
    calls: int = 0
    """Calls in each timed batch."""
    wrong: Finding | None = None
    """Finding that stopped the timing, such as a wrong result."""

    @property
    def figures(self) -> str:
        """Ratio and both absolute times, each with its spread; empty if nothing was measured."""
        if self.ratio is None:
            return ""
        spread = f"{self.ratio_low:.2f} to {self.ratio_high:.2f} in the middle half of {self.pairs} pairs"
        times = f"{self.submission} a call against {self.baseline}, measured"
        return f"{format_ratio(self.ratio)} ({spread}): {times}"


@dataclass(frozen=True)
class Run:
    """Observations of a submission that ran in one scenario."""

    machine: Machine
    calls: tuple[Call, ...]
    source: str
    entry: str
    repeated: tuple[tuple[Call, ...], ...] = ()
    """Each of `calls` with its repeats on the same inputs, if a check wants repeats."""
    baselines: dict[str, tuple[Call, ...]] = field(default_factory=dict)
    """Calls of a baseline with the same inputs, by file name; for speed limits only on the virtual GPU."""
    timings: dict[str, Timing] = field(default_factory=dict)
    """Measurements against a baseline, by name of the check. Only on real devices."""
    reference_flops: tuple[float, ...] = ()
    """Floating-point operations of the author's reference for each call; counted if a check is `timed`."""

    @property
    def repetitions(self) -> tuple[tuple[Call, ...], ...]:
        """Each call with its repeats; alone if there are none."""
        return self.repeated or tuple((call,) for call in self.calls)

    def line_of(self, call: Call) -> int | None:
        """Return the line at which the learner's function returned; if unknown, the line of its last `return`."""
        return call.return_line or return_line(self.source, self.entry)

    def which(self, call: Call) -> str:
        """Describe a call or its repeat, to be appended to a sentence: ` (call 2 of 3, with x of shape (7, 1))`."""
        # A check may pass another check a run with replaced calls, but with the original repeats.
        for position, (own, repeats) in enumerate(zip(self.calls, self.repetitions, strict=True)):
            if any(call is other for other in (own, *repeats)):
                return describe_call(position, len(self.calls), call.drawn)
        raise ValueError("the call is not one of this run")

    def finding(self, call: Call, expected: str, got: str, line: int | None = None, advice: str = "") -> Finding:
        """Return a finding about a call, and name the call in it; `line` defaults to the line of the `return`."""
        return Finding(expected, f"{got}{self.which(call)}", line or self.line_of(call), advice=advice)

    def inconclusive(
        self, call: Call, expected: str, got: str, advice: str = "Grade it on the virtual GPU, where this is known."
    ) -> Finding:
        """Return a finding for something that this machine cannot measure."""
        return Finding(expected, f"{got}{self.which(call)}", advice=advice, status=Status.INCONCLUSIVE)


@dataclass(frozen=True)
class Check:
    """A rule on a run. `find` returns the first violation, or None."""

    name: str
    sentence: Callable[[Machine], str]
    find: Callable[[Run], Finding | None]
    needs: tuple[str, ...] = ()
    """Names of checks that must have passed, if the exercise has them."""
    why: str = ""
    advice: str = ""
    on: Applies = field(default="everywhere")
    points: float = 1.0
    """Points for passing; see `with_points`."""
    repeats: int = 1
    """Number of calls with the same inputs for each case."""
    wants: tuple[str, ...] = ()
    """Costly observations to make: `left` for `MemoryUse.left`, `arguments` for `Call.state`."""
    files: tuple[str, ...] = ()
    """Names of files, without folders, to bring back after each call."""
    opens: tuple[tuple[str, str], ...] = ()
    """Files that a fresh worker opens, as (name, `torch` or `safetensors`)."""
    speed: SpeedLimit | None = None
    baselines: tuple[str, ...] = ()
    """Files of the exercise's folder whose calls the check needs in `Run.baselines`."""
    timed: bool = False
    """True if it judges times: on the virtual GPU it is inconclusive if much of the work has no modelled price."""
    results_only: bool = False
    """True if it looks only at inputs and results, so that it can verify timed calls, which are not traced."""
    measured: Callable[[Run], str] | None = None
    """Function that returns figures to show on success."""
    tolerance: Tolerance | None = None
    """Tolerance of a check of values, for `tolerance_audit`."""
    kind: CheckKind = "other"
    """`values`: passes for right results and only for them. `structure`: the form of results. `other`: all else.

    A failed check of values holds back the passed checks of other kinds in the same scenario. A failed check of
    structure holds back the passed checks of kind `other`.
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
        """Return the same check with these points. Raises `CourseError` unless they are above 0."""
        if not 0 < points < 1e6:
            raise CourseError(f"check {self.name!r}: {points} points", "Give it a number above 0.")
        return replace(self, points=points)

    def with_kind(self, kind: CheckKind) -> Check:
        """Return the same check with another kind. Raises `CourseError` for an unknown one."""
        if kind not in get_args(CheckKind):
            raise CourseError(f"check {self.name!r}: kind={kind!r}", f"Use one of {', '.join(get_args(CheckKind))}.")
        return replace(self, kind=kind)


def describe_call(position: int, calls: int, drawn: dict[str, Any]) -> str:
    """Return the call's number if there are several, and its inputs: ` (call 2 of 3, with index=-1)`."""
    number = [f"call {position + 1} of {calls}"] if calls > 1 else []
    inputs = list(filter(None, [_describe_input(name, value) for name, value in drawn.items()]))
    inputs = [*inputs[:4], "…"] if len(inputs) > 4 else inputs
    words = ", ".join(number + ([f"with {', '.join(inputs)}"] if inputs else []))
    return f" ({words})" if words else ""


def _describe_input(name: str, value: Any) -> str:
    match value:
        case torch.Tensor():
            return f"{name} of shape {tuple(value.shape)}"
        case bool() | int() | float() | torch.dtype() | None:
            return f"{name}={value}"
        case str():
            return f"{name}={value[:40]!r}"
    return ""


def format_ratio(ratio: float) -> str:
    return f"{ratio:.2f} × the baseline's time"


def count(number: int, word: str) -> str:
    """Return `1 copy`, `2 copies` or `no copies between devices`."""
    thing, between, rest = word.partition(" between ")
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}es" if thing.endswith("ch") else f"{thing}s"
    return f"{number or 'no'} {word if number == 1 else plural + between + rest}"


Reference = Callable[..., Any]


def run_reference(reference: Reference, drawn: dict[str, Any], *, in_float64: bool) -> Any:
    """Return `reference(**drawn)` on copies; with `in_float64`, floating tensors are widened first.

    Raises `CourseError` if the reference itself fails: that is never the learner's fault.
    """
    arguments = {name: map_tensors(value, lambda tensor: _copy(tensor, in_float64)) for name, value in drawn.items()}
    check_fits(reference, f"({', '.join(arguments)})", **arguments)
    try:
        return reference(**arguments)
    except Exception as error:
        raise fault_of(error, lead="the reference failed: ") from error


def _copy(tensor: torch.Tensor, in_float64: bool) -> torch.Tensor:
    dtype = tensor.dtype
    if in_float64 and (tensor.is_floating_point() or tensor.is_complex()):
        dtype = torch.complex128 if tensor.is_complex() else torch.float64
    return tensor.detach().to(dtype, copy=True).requires_grad_(tensor.requires_grad)
