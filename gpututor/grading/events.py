"""What is asked of the judge, and what comes back while it grades. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

from gpututor.grading.report import Report, Verdict


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


@dataclass(frozen=True)
class RunStarted:
    """A scenario begins."""

    scenario: str
    device: str
    """For people: "cuda:0, virtual T4"."""


@dataclass(frozen=True)
class VerdictReached:
    """A check has answered."""

    verdict: Verdict


@dataclass(frozen=True)
class Graded:
    """The end: the whole report."""

    report: Report


@dataclass(frozen=True)
class Cancelled:
    """The end after `cancel`: nothing is to be recorded."""


GradingEvent = RunStarted | VerdictReached | Graded | Cancelled
