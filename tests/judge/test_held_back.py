"""Wrong values earn nothing for what they cost: checks that passed are held back."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.checks.model import Check, CheckKind
from gpututor.course.loader import load_course
from gpututor.errors import CourseError
from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradeRequest, GradingFinished
from gpututor.grading.report import Outcome, Status, Verdict
from gpututor.judge.verdicts import with_held_back
from gpututor.paths import builtin_course
from tests.support.gradings import Grade

PASSED, FAILED, HELD, NOT_RUN = Status.PASSED, Status.FAILED, Status.HELD_BACK, Status.NOT_RUN
REVIEW, SLOW = Status.NEEDS_REVIEW, Status.TOO_SLOW
ZEROS = {
    "tensors_on_the_device/born_on_the_device": "(height, width, device):\n"
    "    return torch.zeros(height, width, 2, device=device)\n",
    "tensors_on_the_device/same_device": "(table, queries):\n"
    "    larger = table if table.nbytes >= queries.nbytes else queries\n"
    "    return torch.zeros(len(table), len(queries), device=larger.device)\n",
    "keep_the_data_moving/hidden_syncs": "(batches, weights):\n    return torch.zeros(2)\n",
}


def judged(*rows: tuple[CheckKind, Status]) -> list[Status]:
    """The statuses that come out of the checks' own."""
    pairs = []
    for number, (kind, status) in enumerate(rows):
        check = Check(f"check {number}", lambda _: "It holds", lambda run: None, kind=kind)
        points = 1.0 if status is PASSED else 0.0
        pairs.append((check, Verdict(check.name, "It holds", status, "one GPU", points=points, of=1.0)))
    verdicts = list(with_held_back(pairs))
    assert [verdict.check for verdict in verdicts] == [check.name for check, _ in pairs]
    assert all(verdict.points == 0 for verdict in verdicts if verdict.status is not PASSED)
    return [verdict.status for verdict in verdicts]


@pytest.mark.parametrize(
    ("rows", "statuses"),
    [
        ((("structure", PASSED), ("other", PASSED), ("values", PASSED)), [PASSED, PASSED, PASSED]),
        ((("structure", PASSED), ("other", PASSED), ("values", FAILED)), [HELD, HELD, FAILED]),
        ((("structure", PASSED), ("other", FAILED), ("values", FAILED)), [HELD, FAILED, FAILED]),
        ((("structure", FAILED), ("other", PASSED), ("values", NOT_RUN)), [FAILED, HELD, NOT_RUN]),
        ((("structure", FAILED), ("other", PASSED), ("values", PASSED)), [FAILED, HELD, PASSED]),
        ((("values", PASSED), ("values", FAILED), ("other", PASSED)), [PASSED, FAILED, HELD]),
        ((("values", PASSED), ("other", FAILED), ("other", SLOW), ("other", PASSED)), [PASSED, FAILED, SLOW, PASSED]),
        ((("values", REVIEW), ("other", PASSED)), [REVIEW, PASSED]),
        ((("structure", REVIEW), ("values", NOT_RUN), ("other", PASSED)), [REVIEW, NOT_RUN, PASSED]),
        ((("other", FAILED), ("values", NOT_RUN), ("structure", PASSED)), [FAILED, NOT_RUN, HELD]),
        ((("other", PASSED), ("other", FAILED)), [PASSED, FAILED]),
    ],
)
def test_what_passed_is_held_back_where_values_are_wrong(
    rows: tuple[tuple[CheckKind, Status], ...], statuses: list[Status]
) -> None:
    assert judged(*rows) == statuses


def test_a_check_says_its_kind_and_another_one_is_refused() -> None:
    check = Check("mine", lambda _: "It holds", lambda run: None)
    assert (check.kind, check.with_kind("values").kind) == ("other", "values")
    with pytest.raises(CourseError, match="kind='value'"):
        check.with_kind("value")  # type: ignore[arg-type]


CHECKS = """\
from gpututor.checks import source, value
from gpututor.checks.model import Check


def expected(drawn, machine):
    return 2 * drawn["number"] if machine.gpus else 0


checks = [
    source(forbid=("eval",)).with_points(2),
    Check("idle", lambda machine: "It launches nothing", lambda run: None),
    value(expected).with_points(3),
]
"""
TWO_SCENARIOS = '\n[[scenario]]\nname = "one GPU"\ngpus = 1\n\n[[scenario]]\nname = "no GPU"\ngpus = 0\n'


def test_zeros_that_are_right_in_one_scenario_earn_nothing(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "checks.py").write_text(CHECKS)
    with (exercise_folder / "exercise.toml").open("a") as manifest:
        manifest.write(TWO_SCENARIOS)

    report = grade("def twice(number):\n    return 0\n", device="virtual")

    statuses = [(verdict.scenario, verdict.status) for verdict in report.verdicts if verdict.of]
    assert statuses == [
        *(("one GPU", HELD), ("one GPU", HELD), ("one GPU", FAILED)),
        *(("no GPU", PASSED), ("no GPU", PASSED), ("no GPU", PASSED)),
    ]
    assert (report.outcome, report.points, report.of, report.final) == (Outcome.FAILED, 0, 6, True)
    first = report.first_failure
    assert first is not None
    assert first.check == "value"


@pytest.mark.parametrize("key", ZEROS)
def test_zeros_of_the_right_shape_earn_nothing_in_the_course(client: GradingClient, key: str) -> None:
    exercise = next(each for each in load_course(builtin_course()).exercises if each.key == key)
    source = f"import torch\n\n\ndef {exercise.entry}{ZEROS[key]}"

    *_, end = client.grade(GradeRequest(str(exercise.folder), source, "zeros.py", device="virtual"))

    assert isinstance(end, GradingFinished)
    assert (end.report.outcome, end.report.points) == (Outcome.FAILED, 0)
    assert HELD in {verdict.status for verdict in end.report.verdicts}
