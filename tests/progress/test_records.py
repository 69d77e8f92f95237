"""Reports that are kept are read, also those of version 1."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from gpututor.grading.report import Outcome, Report, Status
from gpututor.progress.store import ProgressStore, read_record
from tests.support.reports import report

WRITTEN_BY_VERSION_1 = (
    '{"exercise": "tensors/born", "outcome": "failed", "verdicts": [{"check": "placement", "sentence": "Every output '
    'lives on cuda:0", "status": "failed", "scenario": "one GPU", "expected": "cuda:0", "got": "cpu", "line": 3, '
    '"why": "", "advice": ""}, {"check": "parity", "sentence": "The values are right", "status": "not run", '
    '"scenario": "one GPU", "expected": "", "got": "", "line": null, "why": "", "advice": ""}], "runs": [{"scenario": '
    '"one GPU", "device": "cuda:0, virtual T4", "virtual": true, "output": "hello\\n", "output_dropped_bytes": 0, '
    '"traceback": "", "kernels": 1, "transfers": 2, "synchronisations": 0}], "environment": {"gpututor": "0.1.0", '
    '"torch": "2.13.0", "python": "3.11.7", "platform": "linux x86_64", "isolation": "process", "seed": 7}, '
    '"submission_sha256": "00", "started_at": "2026-01-01T00:00:00+00:00", "elapsed_s": 0.5, "reason": "", '
    '"schema_version": 1}'
)


def test_a_record_of_version_1_is_read_and_claims_no_points() -> None:
    found = read_record(WRITTEN_BY_VERSION_1)
    assert (found.outcome, found.points, found.of, found.final) == (Outcome.FAILED, 0, 0, True)
    assert [(each.check, each.status, each.line) for each in found.verdicts] == [
        ("placement", Status.FAILED, 3),
        ("parity", Status.NOT_RUN, None),
    ]
    assert (found.runs[0].kernels, found.runs[0].placement, found.environment.workers) == (1, "", "")
    assert Report.from_json(found.to_json()) == found


def test_a_record_of_version_2_is_read_without_notes_on_the_source() -> None:
    now = report()
    older = {**now.to_json(), "schema_version": 2}
    del older["source_notes"]
    assert read_record(json.dumps(older)) == now


@pytest.mark.parametrize("outcome", Outcome)
def test_each_outcome_of_version_1_is_read(outcome: Outcome) -> None:
    data: dict[str, Any] = json.loads(WRITTEN_BY_VERSION_1) | {"outcome": str(outcome)}
    if outcome is Outcome.PASSED:
        data["verdicts"] = []
    assert read_record(json.dumps(data)).outcome is outcome


@pytest.mark.parametrize("part", ["verdicts", "runs", "environment", "outcome"])
@pytest.mark.parametrize("value", [None, 1, "x", [None], [[]], {}])
def test_a_broken_record_of_version_1_is_a_value_error(part: str, value: object) -> None:
    data = json.loads(WRITTEN_BY_VERSION_1) | {part: value}
    with pytest.raises(ValueError, match=part):
        read_record(json.dumps(data))


def test_an_attempt_that_version_1_kept_is_still_among_the_attempts(tmp_path: Path) -> None:
    path = tmp_path / "progress.sqlite3"
    store = ProgressStore(path)
    store.record(report())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE attempts SET report = ?", (WRITTEN_BY_VERSION_1,))
    store.record(report(seed=2))
    assert [attempt.report.environment.seed for attempt in store.attempts("tensors/born")] == [7, 2]
    assert store.summary()["tensors/born"].attempts == 2
