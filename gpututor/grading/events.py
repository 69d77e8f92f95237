"""What is asked of the judge, and what comes back while it grades. Plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from gpututor.grading.report import Report, Verdict, verdict_from_json

if TYPE_CHECKING:
    from gpututor.grading.journal import GradingKey


@dataclass(frozen=True)
class GradeRequest:
    """One submission to be graded."""

    exercise_folder: str
    """The exercise's folder."""
    submission: str
    """The text of the submission."""
    file_name: str
    """How the learner knows the file; shown in tracebacks."""
    device: str = "auto"
    """`auto`, `virtual`, `cpu`, `cuda`, `cuda:N`, `mps` or `xpu`."""
    gpu: str | None = None
    """The virtual GPU's model, instead of the scenario's own."""
    gpus: int | None = None
    """How many virtual GPUs, instead of the scenario's own count (which 0 keeps)."""
    seed: int | None = None
    """The seed of the inputs; None: drawn by the judge."""
    is_text: bool = True
    """False where `submission` held halves of surrogate pairs, which did not travel: it is not graded."""
    reviews_source: bool = False
    """True if a name that no honest solution needs makes the outcome `needs review`; False if it is only a note. A
    grading with a `key` is a class's, and needs the review in any case. See `gpututor.judge.source_review`."""
    recording_folder: str | None = None
    """Where what the devices did is written; see `gpututor.grading.recording`. None: nowhere."""
    journal: str | None = None
    """The folder where the judge writes the report, before it says `Graded`; see `gpututor.grading.journal`. An
    internal error and what is not gradable here are not written: they say nothing of the submission."""
    key: GradingKey | None = None
    """Under which it is written, checked by the judge. None where there is no journal."""

    @property
    def notes_count(self) -> bool:
        """True if notes on the source make the outcome `needs review`."""
        return self.reviews_source or self.key is not None


@dataclass(frozen=True)
class WaitingForDevice:
    """Another grading is on the real device: this one waits for its end. Comes again now and then."""

    device: str
    """`cuda:0`"""


@dataclass(frozen=True)
class ScenarioStarted:
    """A scenario begins."""

    scenario: str
    device: str
    """For people: "cuda:0, virtual T4"."""
    number: int = 1
    """Which of the submission's runs it is, from 1."""
    of: int = 1
    """How many there are at most."""


@dataclass(frozen=True)
class CallStarted:
    """The learner's function is called."""

    number: int
    """From 1, in this run."""
    of: int


@dataclass(frozen=True)
class CheckFinished:
    """A check has answered."""

    verdict: Verdict


@dataclass(frozen=True)
class TimingProgressed:
    """Pairs of calls are being timed, on a real device: the first event, with no pair, comes before any."""

    sentence: str
    """Of the check that asks for it."""
    pairs: int
    most_pairs: int


@dataclass(frozen=True)
class GradingFinished:
    """The end: the whole report."""

    report: Report


@dataclass(frozen=True)
class GradingCancelled:
    """The end after `cancel`: nothing is to be recorded."""


GradingEvent = (
    WaitingForDevice
    | ScenarioStarted
    | CallStarted
    | TimingProgressed
    | CheckFinished
    | GradingFinished
    | GradingCancelled
)


def request_to_json(request: GradeRequest) -> dict[str, Any]:
    try:
        request.submission.encode()
    except UnicodeEncodeError:
        request = replace(request, is_text=False)
    return asdict(request)


def request_from_json(data: dict[str, Any]) -> GradeRequest:
    key = data.get("key")
    if key is None:
        return GradeRequest(**data)
    from gpututor.grading.journal import GradingKey  # nobody needs it to ask for a grade in the app

    return GradeRequest(**{**data, "key": GradingKey(**key)})


def event_to_json(event: GradingEvent) -> dict[str, Any]:
    match event:
        case GradingFinished():
            return {"event": "graded", "report": event.report.to_json()}
        case CheckFinished():
            return {"event": "verdict reached", "verdict": asdict(event.verdict)}
        case WaitingForDevice():
            return {"event": "device awaited", **asdict(event)}
        case ScenarioStarted():
            return {"event": "run started", **asdict(event)}
        case CallStarted():
            return {"event": "call started", **asdict(event)}
        case TimingProgressed():
            return {"event": "timing advanced", **asdict(event)}
        case GradingCancelled():
            return {"event": "cancelled"}


def event_from_json(data: dict[str, Any]) -> GradingEvent:
    """Raises `ValueError` for what `event_to_json` did not write."""
    match data.get("event"):
        case "graded":
            return GradingFinished(Report.from_json(data.get("report")))
        case "verdict reached":
            return CheckFinished(verdict_from_json(data.get("verdict")))
        case "device awaited":
            return WaitingForDevice(str(data["device"]))
        case "run started":
            return ScenarioStarted(str(data["scenario"]), str(data["device"]), int(data["number"]), int(data["of"]))
        case "call started":
            return CallStarted(int(data["number"]), int(data["of"]))
        case "timing advanced":
            return TimingProgressed(str(data["sentence"]), int(data["pairs"]), int(data["most_pairs"]))
        case "cancelled":
            return GradingCancelled()
    raise ValueError(f"no event of grading is called {data.get('event')!r}")
