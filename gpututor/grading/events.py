"""Requests to the judge, and the events that it sends while it grades. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from gpututor.grading.report import Report, Verdict
from gpututor.json_dataclasses import read, to_json

if TYPE_CHECKING:
    from gpututor.grading.journal import GradingKey


@dataclass(frozen=True)
class GradeRequest:
    """A submission to be graded."""

    exercise_folder: str
    submission: str
    file_name: str
    """The file's name in tracebacks."""
    device: str = "auto"
    """`auto`, `virtual`, `cpu`, `cuda`, `cuda:N`, `mps` or `xpu`."""
    gpu: str | None = None
    """The virtual GPU's model, instead of the scenario's own."""
    gpus: int | None = None
    """Number of virtual GPUs, instead of the scenario's own number unless that is 0."""
    seed: int | None = None
    """The seed of the inputs; None if the judge draws it."""
    is_text: bool = True
    """False if `submission` contained halves of surrogate pairs, which frames do not transfer: it is not graded."""
    reviews_source: bool = False
    """True if a name that no honest solution needs makes the outcome `needs review`; False if it is only a note. A
    class's grading, which has a `key`, always needs the review. See `gpututor.judge.source_review`."""
    recording_folder: str | None = None
    """The folder for the recording, see `gpututor.grading.recording`; None if nothing is recorded."""
    journal: str | None = None
    """The folder where the judge writes the report before it sends `GradingFinished`; see `gpututor.grading.journal`.
    Reports of an internal error or `not gradable here` are not written: they say nothing about the submission."""
    key: GradingKey | None = None
    """The journal's key, which the judge verifies; None without a journal."""

    @property
    def notes_count(self) -> bool:
        """True if notes on the source make the outcome `needs review`."""
        return self.reviews_source or self.key is not None


@dataclass(frozen=True)
class WaitingForDevice:
    """Another grading uses the real device: this grading waits for its end. Sent again now and then."""

    device: str


@dataclass(frozen=True)
class ScenarioStarted:
    """The beginning of a scenario."""

    scenario: str
    device: str
    """Name shown to people: "cuda:0, virtual T4"."""
    number: int = 1
    """The number of the run, from 1."""
    of: int = 1


@dataclass(frozen=True)
class CallStarted:
    """A call of the learner's function."""

    number: int
    """Number from 1, in this run."""
    of: int


@dataclass(frozen=True)
class OutputPrinted:
    """The newest line that the running submission printed. Sent now and then, not for each line."""

    line: str
    """Text from the submission, possibly cut, and with any characters."""


@dataclass(frozen=True)
class CheckFinished:
    """The verdict of a check."""

    verdict: Verdict


@dataclass(frozen=True)
class TimingProgressed:
    """Progress of timing pairs of calls on a real device. The first event, with 0 pairs, precedes the first pair."""

    sentence: str
    pairs: int
    most_pairs: int


@dataclass(frozen=True)
class GradingFinished:
    """The end of a grading, with the report."""

    report: Report


@dataclass(frozen=True)
class GradingCancelled:
    """The end of a cancelled grading, which has no report."""


GradingEvent = (
    WaitingForDevice
    | ScenarioStarted
    | CallStarted
    | OutputPrinted
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
    data: dict[str, Any] = to_json(request)
    return data


def request_from_json(data: dict[str, Any]) -> GradeRequest:
    key = data.get("key")
    if key is None:
        return GradeRequest(**data)
    from gpututor.grading.journal import GradingKey  # the app grades without a key

    return GradeRequest(**{**data, "key": GradingKey(**key)})


_NAMES: dict[type[GradingEvent], str] = {
    WaitingForDevice: "device awaited",
    ScenarioStarted: "run started",
    CallStarted: "call started",
    OutputPrinted: "output printed",
    TimingProgressed: "timing advanced",
    CheckFinished: "verdict reached",
    GradingFinished: "graded",
    GradingCancelled: "cancelled",
}


def event_to_json(event: GradingEvent) -> dict[str, Any]:
    return {"event": _NAMES[type(event)], **to_json(event)}


def event_from_json(data: dict[str, Any]) -> GradingEvent:
    """Read what `event_to_json` returned, with other keys. Raises `ValueError` for anything else."""
    for kind, name in _NAMES.items():
        if name == data.get("event"):
            return read(kind, {field.name: data.get(field.name) for field in fields(kind)}, "")
    raise ValueError(f"there is no event called {data.get('event')!r}")
