"""What an attempt is worth, which attempt counts, and what the marks of a student come to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest

from gpututor.classroom.gradebook.model import Mark, MarkStatus
from gpututor.classroom.rules import ExerciseRules, Extension, LatePolicy, Rules
from gpututor.classroom.submissions import Student
from gpututor.errors import UsageError
from gpututor.grading.report import Outcome, Report, Status
from tests.support.classes import report_of
from tests.support.gradebooks import EXERCISE, OTHER, One, gradebook, points, report, verdict

DUE = datetime(2026, 3, 1, 12, tzinfo=UTC)
TEN_PER_DAY = LatePolicy(per_cent=10)


def mark(*reports: Report | None, rules: Rules | None = None, **more: Any) -> Mark:
    files = [One("kim", each, **more) for each in reports]
    return gradebook(files, rules).student("kim").mark_of(EXERCISE)


def own(**rules: Any) -> Rules:
    return Rules(exercises=MappingProxyType({EXERCISE: ExerciseRules(**rules)}))


def after(**late: float) -> str:
    return (DUE + timedelta(**late)).isoformat()


def test_a_check_counts_once_and_earns_only_if_it_passed_in_every_scenario() -> None:
    found = mark(
        report(
            verdict("placement", of=2),
            verdict("placement", of=2, scenario="no GPU"),
            verdict("parity", of=3),
            verdict("parity", Status.FAILED, of=3, scenario="no GPU"),
            verdict("loads", of=0),
        )
    )
    assert (found.mark, found.of, found.standing) == (2, 5, MarkStatus.FINAL)
    assert found.counted is not None
    assert [(each.check, each.status, each.points, each.of) for each in found.counted.checks] == [
        ("placement", Status.PASSED, 2, 2),
        ("parity", Status.FAILED, 0, 3),
        ("loads", Status.PASSED, 0, 0),
    ]


def test_a_check_that_is_held_back_earns_nothing_whatever_the_rules_give() -> None:
    held = verdict("syncs", Status.HELD_BACK)
    one = report(verdict("parity", Status.FAILED), held, verdict("syncs", scenario="no GPU"))

    found = mark(one, rules=own(points={"syncs": 4}, extra=("syncs",)))

    assert found.mark == 0
    assert found.counted is not None
    assert [each.status for each in found.counted.checks] == [Status.FAILED, Status.HELD_BACK]


def test_points_of_the_rules_stand_in_place_of_the_authors() -> None:
    one = report(verdict("placement"), verdict("parity", Status.FAILED))
    found = mark(one, rules=own(points={"placement": 4, "parity": 0.5}))
    assert (found.mark, found.of) == (4, 4.5)


def test_extra_points_come_on_top() -> None:
    one = report(verdict("placement"), verdict("speed", of=2))
    found = mark(one, rules=own(extra=("speed",)))
    assert (found.mark, found.of, found.share) == (3, 1, 3)
    book = gradebook([One("kim", one)], own(extra=("speed",)))
    assert (book.exercises[0].known_of, book.exercises[0].extra) == (1, 2)


def test_checks_that_no_report_came_to_count_as_the_author_gives() -> None:
    ended = replace(report_of(EXERCISE, Outcome.ERROR, (verdict("loads", Status.FAILED, of=0),)), of=5.0)
    assert (mark(ended).mark, mark(ended).of) == (0, 5)
    both = gradebook([One("kim", ended), One("lee", points(5, 5))])
    assert [student.marks[0].of for student in both.students] == [5, 5]


def test_a_pass_earns_everything_also_where_a_check_did_not_apply() -> None:
    files = [One("kim", report(verdict("placement"), verdict("speed"))), One("lee", report(verdict("placement")))]
    assert [student.points for student in gradebook(files).students] == [2, 2]


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (report(verdict("parity"), verdict("speed", Status.INCONCLUSIVE)), "speed (inconclusive)"),
        (report(verdict("parity"), suspicions=("It is faster than light.",)), "It is faster than light."),
        (report_of(EXERCISE, Outcome.INTERNAL_ERROR, reason="The worker broke."), "The worker broke."),
        (report_of(EXERCISE, Outcome.NOT_GRADABLE_HERE, reason="It needs mps."), "It needs mps."),
    ],
)
def test_what_is_not_final_is_open_and_no_mark(one: Report, told: str) -> None:
    found = mark(one)
    assert (found.standing, found.mark) == (MarkStatus.OPEN, None)
    assert told in found.reason


def test_what_was_refused_what_is_not_graded_and_what_was_not_handed_in_are_told_apart() -> None:
    refused = mark(None, refusal="It is larger than 1 MiB.")
    assert (refused.standing, refused.mark, refused.outcome) == (MarkStatus.REFUSED, None, Outcome.REJECTED)
    assert "It is larger than 1 MiB." in refused.reason
    by_judge = mark(report_of(EXERCISE, Outcome.REJECTED, reason="It is no text."))
    assert (by_judge.standing, by_judge.mark) == (MarkStatus.REFUSED, None)
    waiting = mark(None)
    assert (waiting.standing, waiting.mark, waiting.outcome) == (MarkStatus.NOT_GRADED, None, None)
    book = gradebook([One("kim", points(1, 2))], students=[Student("lee")])
    nothing = book.student("lee").mark_of(EXERCISE)
    assert (nothing.standing, nothing.mark, nothing.of) == (MarkStatus.NOT_HANDED_IN, 0, 2)
    assert book.student("lee").final


def test_the_best_attempt_counts_or_the_last_as_the_rules_say() -> None:
    reports = (points(3, 4), points(4, 4), points(1, 4))
    assert mark(*reports).points == 4
    assert "Attempt 2 of 3 counts." in mark(*reports).reason
    assert mark(*reports, rules=Rules(attempts="last")).points == 1


def test_of_equal_attempts_the_first_counts() -> None:
    found = mark(points(3, 4), points(3, 4))
    assert found.counted is found.attempts[0]


def test_a_mark_is_open_while_an_attempt_could_still_become_better() -> None:
    could = report(verdict("placement", of=2), verdict("speed", Status.INCONCLUSIVE, of=2))
    found = mark(could, report(verdict("placement", Status.FAILED, of=2), verdict("speed", of=2)))
    assert (found.standing, found.mark, found.points) == (MarkStatus.OPEN, None, 2)
    assert "Attempt 1 of 2 is to be decided on first." in found.reason
    assert mark(could, report(verdict("placement", of=2), verdict("speed", of=2))).mark == 4
    cannot = report(verdict("placement", Status.FAILED, of=2), verdict("speed", Status.INCONCLUSIVE, of=2))
    assert mark(cannot, report(verdict("placement", of=2), verdict("speed", Status.FAILED, of=2))).mark == 2


def test_a_refused_file_does_not_keep_a_graded_one_from_counting() -> None:
    files = [One("kim", points(3, 4)), One("kim", None, refusal="It is a link.")]
    assert gradebook(files).student("kim").points == 3
    last = gradebook(files, Rules(attempts="last")).student("kim")
    assert last.marks[0].standing is MarkStatus.REFUSED


def test_lateness_takes_its_share_for_each_started_day() -> None:
    rules = Rules(due=DUE, late=TEN_PER_DAY)
    assert mark(points(4, 5), rules=rules, submitted_at=after(seconds=0)).mark == 4
    late = mark(points(4, 5), rules=rules, submitted_at=after(hours=25))
    assert late.mark == 3.2
    assert late.counted is not None
    assert late.counted.deduction == pytest.approx(0.8)
    assert late.reason == "Late (2 started days): 20 per cent are taken off."
    of_possible = replace(rules, late=replace(TEN_PER_DAY, taken_from="possible"))
    assert mark(points(4, 5), rules=of_possible, submitted_at=after(hours=25)).mark == 3
    assert mark(points(4, 5), rules=of_possible, submitted_at=after(days=40)).mark == 0


def test_lateness_has_a_grace_a_most_and_an_end() -> None:
    policy = LatePolicy(per_cent=20, per="hour", grace_minutes=10, most_per_cent=50, reject_after_hours=24)
    rules = Rules(due=DUE, late=policy)
    marks = {
        minutes: mark(points(4, 4), rules=rules, submitted_at=after(minutes=minutes)).mark
        for minutes in (10, 11, 61, 600, 1441)
    }
    assert marks == {10: 4, 11: 3.2, 61: 2.4, 600: 2, 1441: 0}
    too_late = mark(points(4, 4), rules=rules, submitted_at=after(days=2))
    assert (too_late.standing, too_late.reason) == (MarkStatus.FINAL, "It came too late to be counted.")


def test_what_the_platform_calls_late_is_late_by_one_day_where_no_time_is_known() -> None:
    assert mark(points(4, 4), rules=Rules(late=TEN_PER_DAY), late=True).mark == 3.6
    in_time = Rules(due=DUE, late=TEN_PER_DAY)
    assert mark(points(4, 4), rules=in_time, late=True, submitted_at=after(hours=-1)).mark == 4


def test_lateness_is_taken_off_before_the_best_is_chosen() -> None:
    rules = Rules(due=DUE, late=LatePolicy(per_cent=50))
    files = [
        One("kim", points(3, 5), submitted_at=after(hours=-1)),
        One("kim", points(5, 5), submitted_at=after(hours=1)),
    ]
    found = gradebook(files, rules).student("kim").marks[0]
    assert (found.mark, found.counted) == (3, found.attempts[0])


def test_what_came_too_late_never_counts_where_something_came_in_time() -> None:
    rules = Rules(attempts="last", due=DUE, late=LatePolicy(reject_after_hours=1))
    files = [
        One("kim", points(0, 5), submitted_at=after(hours=-1)),
        One("kim", points(5, 5), submitted_at=after(hours=2)),
    ]
    found = gradebook(files, rules).student("kim").marks[0]
    assert found.counted is found.attempts[0]


def test_an_extension_puts_the_date_off_for_one_student() -> None:
    rules = Rules(due=DUE, late=TEN_PER_DAY, extensions=(Extension("kim", hours=48), Extension("lee", OTHER, hours=48)))
    files = [One(name, points(4, 4), submitted_at=after(hours=30)) for name in ("kim", "lee")]
    assert [student.points for student in gradebook(files, rules).students] == [4, 3.2]
    assert rules.due_for(EXERCISE, "kim") == DUE + timedelta(hours=48)
    assert rules.due_for(EXERCISE) == DUE


def test_dropped_exercises_and_the_lowest_count_for_nothing() -> None:
    third = "keep_the_data_moving/stop_the_ping_pong"
    files = [
        One("kim", points(1, 4)),
        One("kim", points(3, 4, exercise=OTHER), OTHER),
        One("kim", points(4, 4, exercise=third), third),
    ]
    assert (gradebook(files).students[0].points, gradebook(files).students[0].of) == (8, 12)
    fixed = gradebook(files, Rules(drop=(third,))).students[0]
    assert (fixed.points, fixed.of, fixed.mark_of(third).is_dropped) == (4, 8, True)
    lowest = gradebook(files, Rules(drop_lowest=1)).students[0]
    assert (lowest.points, lowest.of, lowest.mark_of(EXERCISE).is_dropped) == (7, 8, True)
    assert gradebook(files, Rules(drop_lowest=9)).students[0].points == 4


def test_weights_scale_and_rounding() -> None:
    files = [One("kim", points(1, 3)), One("kim", points(2, 2, exercise=OTHER), OTHER)]
    weighted = replace(own(weight=2), scale=100, decimals=0)
    assert (gradebook(files, weighted).students[0].points, gradebook(files, weighted).students[0].of) == (50, 100)
    thirds = [One("kim", points(2, 3))]
    for rounding, expected in (("nearest", 66.67), ("up", 66.67), ("down", 66.66)):
        rules = Rules(scale=100, rounding=rounding)  # type: ignore[arg-type]
        assert gradebook(thirds, rules).students[0].points == expected


@pytest.mark.parametrize(("points", "expected"), [(0.1 + 0.2, 0.3), (2.5, 2.5), (0.125, 0.13), (1.005, 1.01)])
def test_halves_go_up_and_errors_of_floats_do_not(points: float, expected: float) -> None:
    assert Rules().rounded(points) == expected
    assert Rules(rounding="up").rounded(0.1 + 0.2) == 0.3


def test_a_total_is_final_when_no_mark_is_open_dropped_or_not() -> None:
    files = [One("kim", points(4, 4)), One("kim", None, OTHER)]
    assert not gradebook(files, Rules(drop_lowest=1)).students[0].final
    assert gradebook(files, Rules(drop=(OTHER,))).students[0].final


def test_rules_that_name_a_check_which_the_exercise_does_not_have_are_refused() -> None:
    with pytest.raises(UsageError) as raised:
        gradebook([One("kim", points(1, 2))], own(hidden=("party",)))
    assert raised.value.title.endswith(f"exercises.'{EXERCISE}'.hidden: the exercise has no check 'party'")
    assert raised.value.advice == "Did you mean 'parity'?"
    book = gradebook([One("kim", None)], own(points={"party": 2}))
    assert any("whether there is a check 'party' is not known" in notice.title for notice in book.notices)


def test_assigned_exercises_count_also_where_nobody_handed_them_in_and_others_do_not() -> None:
    book = gradebook([One("kim", points(1, 2))], Rules(assigned=(OTHER,)))
    assert [each.exercise for each in book.exercises] == [OTHER]
    assert book.students[0].marks[0].standing is MarkStatus.NOT_HANDED_IN
    assert [notice.title for notice in book.notices] == [
        f"Handed in, and not assigned: {EXERCISE}.",
        f"{OTHER} is assigned, and nobody handed it in.",
    ]
