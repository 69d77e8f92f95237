"""The JSON schema of reports agrees with the dataclasses and with the reader."""

from __future__ import annotations

import json
import runpy
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.grading.report import Outcome, Report, Status
from tests.support import ROOT
from tests.support.report_samples import of_json, report, said
from tests.support.report_strategies import reports

FILE = ROOT / "gpututor" / "grading" / "report.schema.json"
SCHEMA = json.loads(FILE.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_the_file_matches_the_dataclasses_and_is_a_valid_schema() -> None:
    report_schema = runpy.run_path(str(ROOT / "docs" / "report_schema.py"))["report_schema"]
    assert report_schema() == SCHEMA, f"python docs/report_schema.py > {FILE}"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("outcome", Outcome)
def test_a_report_of_each_outcome_is_valid(outcome: Outcome) -> None:
    VALIDATOR.validate(of_json(report(outcome, said("loads", of=0), said("parity", of=2.5))))
    if outcome is not Outcome.PASSED:
        VALIDATOR.validate(of_json(report(outcome, *(said(status, status) for status in Status), suspicions=("odd",))))


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 1},
        {"outcome": "good"},
        {"verdicts": [{}]},
        {"colour": "red"},
        {"suspicions": "none"},
        {"suspicions": ["a pass with a suspicion"]},
        {"final": False},
        {"outcome": "inconclusive"},
        {"points": -1},
    ],
)
def test_a_contradictory_report_is_invalid(change: dict[str, Any]) -> None:
    data = of_json(report(Outcome.PASSED, said("parity")))
    assert VALIDATOR.is_valid(data)
    assert not VALIDATOR.is_valid(data | change)


@pytest.mark.parametrize("status", [Status.INCONCLUSIVE, Status.NEEDS_REVIEW])
def test_a_final_report_with_an_open_question_is_invalid(status: Status) -> None:
    data = of_json(report(Outcome.FAILED, said("parity", Status.FAILED), said("speed", status)))
    assert VALIDATOR.is_valid(data)
    assert not VALIDATOR.is_valid(data | {"final": True})


@given(reports(), st.data())
def test_any_report_is_valid_and_the_reader_accepts_only_valid_ones(value: Report, draw: st.DataObject) -> None:
    data = of_json(value)
    VALIDATOR.validate(data)
    place = data
    if data["verdicts"] and draw.draw(st.booleans(), label="in a verdict"):
        place = data["verdicts"][0]
    key = draw.draw(st.sampled_from(sorted(place)), label="key")
    if draw.draw(st.booleans(), label="left out"):
        del place[key]
    else:
        other: st.SearchStrategy[Any] = st.sampled_from(["passed", "", 0, -1, 1.5, True, None, [], {}, ["x"], [{}]])
        place[key] = draw.draw(other, label="value")
    try:
        accepted = Report.from_json(data)
    except ValueError:
        return
    VALIDATOR.validate(data)
    assert Report.from_json(of_json(accepted)) == accepted
