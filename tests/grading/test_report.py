"""Reports: points, final marks, strict reading of their JSON, and its schema."""

from __future__ import annotations

import json
import math
import runpy
from dataclasses import asdict, replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpututor.grading.report import Outcome, Report, Status, Verdict
from tests.support import ROOT
from tests.support.report_strategies import of_json, report, reports, said


def test_points_require_a_pass_everywhere_and_add_up_exactly() -> None:
    mixed = report(
        Outcome.FAILED,
        said("loads", of=0),
        said("parity", of=2),
        said("placement", of=3),
        said("parity", of=2, scenario="no GPU"),
        said("placement", Status.FAILED, of=3, scenario="no GPU"),
        said("transfers", of=4),
        said("transfers", Status.NOT_RUN, of=4, scenario="no GPU"),
    )
    assert (mixed.points, mixed.of) == (2, 9)
    stopped = report(Outcome.TIMEOUT, said("parity"), of=4)
    assert (stopped.points, stopped.of) == (1, 4)
    assert report(Outcome.FAILED, said("parity"), said("speed", Status.TOO_SLOW), of=1).of == 2
    some = [said(str(number), of=0.1) for number in range(10)]
    assert report(Outcome.PASSED, *some).points == report(Outcome.PASSED, *some).of == 1.0


@pytest.mark.parametrize("outcome", Outcome)
def test_only_a_judged_submission_has_a_final_mark(outcome: Outcome) -> None:
    judged = outcome in (
        *(Outcome.PASSED, Outcome.FAILED, Outcome.ERROR, Outcome.TIMEOUT),
        *(Outcome.OUT_OF_MEMORY, Outcome.CRASHED, Outcome.TOO_SLOW),
    )
    assert report(outcome, said("parity")).final is judged
    assert report(outcome, said("parity")).points == 1
    assert outcome.exit_code in range(5)
    assert (outcome.exit_code == 0) == (outcome is Outcome.PASSED)


@pytest.mark.parametrize("status", [Status.INCONCLUSIVE, Status.NEEDS_REVIEW])
def test_an_open_question_prevents_a_final_mark(status: Status) -> None:
    assert report(Outcome.FAILED, said("parity", Status.FAILED)).final
    assert not report(Outcome.FAILED, said("parity", Status.FAILED), said("speed", status)).final
    assert not report(Outcome.FAILED, said("parity", Status.FAILED), suspicions=("two clocks differ",)).final


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PASSED])
def test_a_pass_requires_every_check_to_pass(status: Status) -> None:
    with pytest.raises(ValueError, match="'speed' did not pass"):
        report(Outcome.PASSED, said("parity"), said("speed", status))


def test_a_pass_requires_all_points_and_no_suspicion() -> None:
    with pytest.raises(ValueError, match="suspicions"):
        report(Outcome.PASSED, said("parity"), suspicions=("two clocks differ",))
    with pytest.raises(ValueError, match=r"only 1\.0 of 2 points"):
        report(Outcome.PASSED, said("parity"), of=2)


@pytest.mark.parametrize(
    ("status", "points", "of"),
    [(Status.PASSED, 0, 1), (Status.FAILED, 1, 1), (Status.PASSED, -1, -1), (Status.FAILED, 0, math.inf)],
)
def test_points_that_contradict_the_status_are_refused(status: Status, points: float, of: float) -> None:
    with pytest.raises(ValueError, match=r"points is|of is"):
        Verdict("parity", "It holds", status, "one GPU", points=points, of=of)


@given(reports())
def test_any_report_survives_a_round_trip_and_is_read_as_version_2(value: Report) -> None:
    assert Report.from_json(of_json(value)) == value
    assert Report.from_json(value.to_json()) == value
    assert of_json(value) == json.loads(json.dumps(asdict(value)))
    old = of_json(value) | {"schema_version": 2}
    del old["source_notes"]
    read = Report.from_json(old)
    assert read == replace(value, source_notes=())
    assert (read.points, read.of, read.final) == (value.points, value.of, value.final)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_version": 1}, "an older gpututor"),
        ({"schema_version": 4}, "a newer gpututor"),
        ({"schema_version": "2"}, "schema_version .* not a string"),
        ({"outcome": "good"}, "outcome .*'passed', .*'good'"),
        ({"elapsed_s": math.nan}, "elapsed_s .*finite"),
        ({"elapsed_s": 10**400}, "elapsed_s .*finite"),
        ({"elapsed_s": True}, "elapsed_s .* not true"),
        ({"verdicts": {}}, "verdicts .* not an object"),
        ({"verdicts": [3]}, r"verdicts\[0\] "),
        ({"runs": None}, "runs .* not null"),
        ({"environment": []}, "environment "),
        ({"suspicions": [1]}, r"suspicions\[0\] "),
        ({"points": 7}, r"points .*7\.0.* 1\.0"),
        ({"of": -1}, r"of .*-1\.0"),
        ({"final": False}, "final .*False.* True"),
        ({"colour": "red"}, "colour "),
    ],
)
def test_an_invalid_field_is_named(change: dict[str, Any], words: str) -> None:
    data = of_json(report(Outcome.FAILED, said("parity"), said("speed", Status.FAILED)))
    with pytest.raises(ValueError, match=words):
        Report.from_json(data | change)


def test_a_nested_invalid_field_is_named() -> None:
    data = of_json(report(Outcome.FAILED, said("parity"), said("speed", Status.FAILED)))
    data["verdicts"][1]["status"] = "passed"
    with pytest.raises(ValueError, match=r"verdicts\[1\]: points is 0\.0"):
        Report.from_json(data)
    data["verdicts"][1]["line"] = 1.5
    with pytest.raises(ValueError, match=r"verdicts\[1\]\.line "):
        Report.from_json(data)
    del data["verdicts"][1]["line"]
    with pytest.raises(ValueError, match=r"verdicts\[1\]\.line is missing"):
        Report.from_json(data)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(ANYTHING)
def test_anything_else_is_a_value_error(data: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        Report.from_json(data)


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
