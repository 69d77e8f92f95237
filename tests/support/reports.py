"""A report for tests that need any."""

from __future__ import annotations

from gpututor.grading.report import Environment, Outcome, Report, RunSummary, Status, Verdict


def report(
    exercise: str = "tensors/born", outcome: Outcome = Outcome.FAILED, *, seed: int = 0, elapsed_s: float = 0.5
) -> Report:
    """Return a report with a verdict and a run; `seed` distinguishes reports."""
    status = Status.PASSED if outcome is Outcome.PASSED else Status.FAILED
    return Report(
        exercise=exercise,
        outcome=outcome,
        verdicts=(Verdict("placement", "Every output lives on cuda:0", status, "one GPU", "cuda:0", "cpu [/x]", 3),),
        runs=(RunSummary("one GPU", "cuda:0, virtual T4", virtual=True, output="é\x1b[0m\n"),),
        environment=Environment("0.1.0", "2.13.0", "3.11.7", "Linux", "limits", seed),
        submission_sha256="0" * 64,
        started_at="2025-01-01T00:00:00+00:00",
        elapsed_s=elapsed_s,
    )
