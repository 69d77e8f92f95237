"""The report on a submission: one outcome, a verdict per check, a run per scenario. Plain data with one JSON form.

`docs/reports.md` explains the JSON. Its schema is `report.schema.json` in this folder; a test compares both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from gpututor.grading.outcome import Outcome as Outcome
from gpututor.grading.outcome import Status as Status
from gpututor.json_dataclasses import read, to_json

SCHEMA_VERSION = 3
READABLE_VERSIONS = (2, 3)
"""Version 3 adds the status `held back` and the key `source_notes`."""

Times = Literal["modelled", "measured", ""]
Placement = Literal["traced", "corroborated", "self-reported", ""]
Workers = Literal["spare", "fork server", ""]


BROKEN_CHECK = "a result that the check can handle"
"""`Verdict.expected` of a check whose code broke on the submission."""


@dataclass(frozen=True)
class Verdict:
    """Result of one check in one scenario. All texts are plain text, never markup.

    Raises `ValueError` for points that do not fit the status.
    """

    check: str
    """The check's name, such as `placement`; `loads`, `runs` and `prints` are built in."""
    sentence: str
    """The rule: "Every output lives on cuda:0"."""
    status: Status
    scenario: str
    expected: str = ""
    got: str = ""
    line: int | None = None
    """The line of the learner's file that the failure points at, from 1."""
    why: str = ""
    advice: str = ""
    """Something to try."""
    points: float = 0.0
    """Points earned: all of `of` if the check passed, else none."""
    of: float = 0.0
    """Points that the check could earn; 0 for built-in checks."""
    measured: str = ""
    """Figures, also of a pass: "0.81 × the baseline: 1.2 ms against 1.5 ms, modelled"."""

    def __post_init__(self) -> None:
        if not 0 <= self.of < math.inf:
            raise ValueError(f"of is {self.of!r}, and must be a number from 0")
        earned = self.of if self.status is Status.PASSED else 0
        if self.points != earned:
            raise ValueError(f"points is {self.points!r}, and a check that {self.status} earns {earned!r}")


@dataclass(frozen=True)
class RunSummary:
    """Device and output of one run."""

    scenario: str
    device: str
    """Name shown to people: "cuda:0, virtual T4"."""
    virtual: bool
    """True if the device was the virtual GPU."""
    output: str = ""
    """Text printed by the submission (stdout and stderr), bounded. Plain text from the learner."""
    output_dropped_bytes: int = 0
    """Bytes of further output, which are not stored."""
    traceback: str = ""
    """The learner's frames of an exception; empty without an exception."""
    kernels: int = 0
    transfers: int = 0
    synchronisations: int = 0
    times: Times = ""
    """Origin of times: the virtual GPU's clock, or the wall clock; empty if nothing was timed."""
    own_gpu: str = ""
    """The exercise's own GPU model if the run was on another model of the virtual GPU; else empty."""
    placement: Placement = ""
    """Evidence of where tensors lived: the virtual GPU's trace (traced), the driver's memory figures (corroborated), or
    only the worker's answers (self-reported); empty if nothing ran."""


@dataclass(frozen=True)
class SourceNote:
    """A name in the submission that no honest solution needs; the judge reads the file before it runs."""

    line: int
    """The line of the learner's file, from 1."""
    name: str
    """The name, such as `gc` or `sys.modules`, as `allowed_names` of an exercise's manifest lists it."""
    sentence: str
    """The purpose of such a name."""

    @property
    def words(self) -> str:
        """`line 3 accesses all objects of the process (gc)`"""
        named = "" if self.name in self.sentence else f" ({self.name})"
        return f"line {self.line} {self.sentence}{named}"


@dataclass(frozen=True)
class Environment:
    """Versions, isolation and seed of a grading."""

    gpututor: str
    torch: str
    python: str
    platform: str
    isolation: str
    """`process` or `bubblewrap`."""
    seed: int
    """The seed of the inputs."""
    driver: str = ""
    """The driver of a real device; empty without one."""
    workers: Workers = ""
    """Origin of the process that ran the submission; empty if no process did."""


@dataclass(frozen=True)
class Report:
    """Result of one grading.

    Points: a check counts once, and earns only if it passed in every scenario where it applies. A check that could not
    run did not pass. `points` are a mark only if `final` is true. They are not final if the submission was not judged
    (rejected, not gradable here, internal error). They are not final either if a check was inconclusive or needs
    review, or if there is a suspicion. Then another grading, or a person's review, may change the points either way.

    Raises `ValueError` for a pass with a check that did not pass, or with a suspicion.
    """

    exercise: str
    """The exercise's key, `lesson/exercise`."""
    outcome: Outcome
    verdicts: tuple[Verdict, ...]
    runs: tuple[RunSummary, ...]
    environment: Environment
    submission_sha256: str
    started_at: str
    """ISO 8601, UTC."""
    elapsed_s: float
    reason: str = ""
    """Reason and remedy of `not gradable here`, `rejected` and `internal error`."""
    schema_version: int = field(default=SCHEMA_VERSION)
    waited_s: float = 0.0
    """Seconds of `elapsed_s` until a worker was ready: almost none if it was warm; a cold start takes seconds."""
    suspicions: tuple[str, ...] = ()
    """Things that a person should look at, in plain text; never an accusation."""
    source_notes: tuple[SourceNote, ...] = ()
    """Names in the file that no honest solution needs, a note for a learner. In a class and in `grade --json` each is
    also a suspicion."""
    of: float = 0.0
    """Points that could be earned: at least the sum over the checks with a verdict, more if the run ended early."""
    points: float = field(init=False, default=0.0)
    """Points earned."""
    final: bool = field(init=False, default=False)
    """True if `points` may be entered as a mark."""

    def __post_init__(self) -> None:
        if self.outcome is Outcome.PASSED:
            for verdict in self.verdicts:
                if verdict.status is not Status.PASSED:
                    raise ValueError(f"outcome is passed, and the check {verdict.check!r} did not pass")
            if self.suspicions:
                raise ValueError("outcome is passed, and there are suspicions")
        if not self.of >= 0:
            raise ValueError(f"of is {self.of!r}, and must be a number from 0")
        points, of = self._sums()
        if self.of and self.outcome is Outcome.PASSED and self.of != of:
            raise ValueError(f"outcome is passed, and only {of!r} of {self.of!r} points were to be earned")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "of", max(of, self.of))
        object.__setattr__(self, "final", self._is_final())

    @property
    def device(self) -> str:
        """Names of all used devices."""
        return "; ".join(dict.fromkeys(run.device for run in self.runs)) or "none"

    @property
    def loads_nowhere(self) -> bool:
        """True if no check could run, as the file loads in no scenario."""
        answers = {(verdict.check, verdict.status) for verdict in self.verdicts if verdict.status is not Status.NOT_RUN}
        return answers == {("loads", Status.FAILED)}

    @property
    def first_failure(self) -> Verdict | None:
        return next((verdict for verdict in self.verdicts if verdict.status.is_failure), None)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = to_json(self)
        return data

    @classmethod
    def from_json(cls, data: object) -> Report:
        """Read what `to_json` returned, now or in an older version. Raises `ValueError` that names the place."""
        return read(cls, upgraded(data) if isinstance(data, dict) else data, "")

    def _sums(self) -> tuple[float, float]:
        """Return points earned and points possible, over the checks by name."""
        by_check: dict[str, list[Verdict]] = {}
        for verdict in self.verdicts:
            by_check.setdefault(verdict.check, []).append(verdict)
        of = {name: max(verdict.of for verdict in verdicts) for name, verdicts in by_check.items()}
        passed = [
            name for name, verdicts in by_check.items() if {verdict.status for verdict in verdicts} == {Status.PASSED}
        ]
        return math.fsum(of[name] for name in passed), math.fsum(of.values())

    def _is_final(self) -> bool:
        open_questions = {Status.INCONCLUSIVE, Status.NEEDS_REVIEW}
        return (
            self.outcome.is_of_the_submission
            and not self.suspicions
            and not any(verdict.status in open_questions for verdict in self.verdicts)
        )


def upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """Return a report as this version writes it. Raises `ValueError` for an unreadable version."""
    version = data.get("schema_version")
    if type(version) is int and version not in READABLE_VERSIONS:
        age = "an older" if version < SCHEMA_VERSION else "a newer"
        known = " and ".join(map(str, READABLE_VERSIONS))
        raise ValueError(f"schema_version is {version}, from {age} gpututor; this one reads {known}: grade once more")
    if version == 2:
        runs = data.get("runs")
        if isinstance(runs, list):
            runs = [{"own_gpu": "", **run} if isinstance(run, dict) else run for run in runs]
        return {**data, "schema_version": SCHEMA_VERSION, "source_notes": [], "runs": runs}
    return data
