"""Scores of attempts, the attempt that counts, and totals of students."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpututor.classroom.feedback import student_view
from gpututor.classroom.gradebook.build import gradebook_of
from gpututor.classroom.gradebook.marking import GradedAttempt
from gpututor.classroom.gradebook.model import Mark, MarkStatus
from gpututor.classroom.rules import ExerciseRules, Extension, LatePolicy, Rules
from gpututor.classroom.submissions import Student
from gpututor.errors import UsageError
from gpututor.grading.report import Outcome, Report, Status
from tests.support.classes import report_of
from tests.support.gradebooks import EXERCISE, OTHER, Upload, gradebook, points, report, verdict

DUE = datetime(2026, 3, 1, 12, tzinfo=UTC)
TEN_PER_DAY = LatePolicy(per_cent=10)


def mark(*reports: Report | None, rules: Rules | None = None, **more: Any) -> Mark:
    files = [Upload("kim", each, **more) for each in reports]
    return gradebook(files, rules).student("kim").mark_of(EXERCISE)


def own(**rules: Any) -> Rules:
    return Rules(exercises=MappingProxyType({EXERCISE: ExerciseRules(**rules)}))


def after(**late: float) -> str:
    return (DUE + timedelta(**late)).isoformat()


def test_a_check_earns_its_points_once_if_it_passed_everywhere() -> None:
    kims = mark(
        report(
            verdict("placement", of=2),
            verdict("placement", of=2, scenario="no GPU"),
            verdict("parity", of=3),
            verdict("parity", Status.FAILED, of=3, scenario="no GPU"),
            verdict("loads", of=0),
        )
    )
    assert (kims.mark, kims.of, kims.status) == (2, 5, MarkStatus.FINAL)
    assert kims.counted is not None
    assert [(each.check, each.status, each.points, each.of) for each in kims.counted.checks] == [
        ("placement", Status.PASSED, 2, 2),
        ("parity", Status.FAILED, 0, 3),
        ("loads", Status.PASSED, 0, 0),
    ]


def test_checks_earn_nothing_without_those_that_they_need() -> None:
    graded = report(
        verdict("loads", of=0),
        verdict("structure", of=2),
        verdict("parity", Status.FAILED, scenario="two GPUs"),
        verdict("parity"),
        verdict("syncs", Status.FAILED),
    )
    files = [Upload("kim", graded), Upload("lee", points(4, 5))]
    of_all = Rules(needs=("parity",))
    for rules, earned in (
        (Rules(), 2),
        (of_all, 0),
        (Rules(needs=("parity",), exercises={EXERCISE: ExerciseRules(needs=())}), 2),
        (Rules(exercises={EXERCISE: ExerciseRules(needs=("structure",))}), 2),
        (Rules(exercises={EXERCISE: ExerciseRules(needs=("structure", "syncs"))}), 2),
        (Rules(exercises={EXERCISE: ExerciseRules(needs=("syncs",))}), 0),
    ):
        assert gradebook(files, rules).student("kim").marks[0].points == earned
    book = gradebook(files, of_all)
    counted = book.student("kim").marks[0].counted
    assert counted is not None
    assert [(check.check, check.status) for check in counted.checks] == [
        ("loads", Status.PASSED),
        ("structure", Status.HELD_BACK),
        ("parity", Status.FAILED),
        ("syncs", Status.FAILED),
    ]
    assert book.student("lee").marks[0].points == 4
    undecided = report(verdict("parity", Status.INCONCLUSIVE), verdict("syncs"))
    attempt = mark(undecided, rules=of_all).counted
    assert attempt is not None
    assert (attempt.points, attempt.most) == (0, 2)
    failed = report(verdict("parity", Status.FAILED), verdict("speed", Status.INCONCLUSIVE))
    attempt = mark(replace(failed, outcome=Outcome.INCONCLUSIVE), rules=of_all).counted
    assert attempt is not None
    assert attempt.most == 0


def test_rules_replace_and_add_points_and_the_authors_count_otherwise() -> None:
    held = verdict("syncs", Status.HELD_BACK)
    graded = report(verdict("parity", Status.FAILED), held, verdict("syncs", scenario="no GPU"))

    kims = mark(graded, rules=own(points={"syncs": 4}, extra=("syncs",)))

    assert kims.mark == 0
    assert kims.counted is not None
    assert [each.status for each in kims.counted.checks] == [Status.FAILED, Status.HELD_BACK]
    graded = report(verdict("placement"), verdict("parity", Status.FAILED))
    kims = mark(graded, rules=own(points={"placement": 4, "parity": 0.5}))
    assert (kims.mark, kims.of) == (4, 4.5)
    graded = report(verdict("placement"), verdict("speed", of=2))
    kims = mark(graded, rules=own(extra=("speed",)))
    assert (kims.mark, kims.of, kims.share) == (3, 1, 3)
    book = gradebook([Upload("kim", graded)], own(extra=("speed",)))
    assert (book.exercises[0].known_of, book.exercises[0].extra) == (1, 2)
    ended = replace(report_of(EXERCISE, Outcome.ERROR, (verdict("loads", Status.FAILED, of=0),)), of=5.0)
    assert (mark(ended).mark, mark(ended).of) == (0, 5)
    both = gradebook([Upload("kim", ended), Upload("lee", points(5, 5))])
    assert [student.marks[0].of for student in both.students] == [5, 5]
    files = [Upload("kim", report(verdict("placement"), verdict("speed"))), Upload("lee", report(verdict("placement")))]
    assert [student.points for student in gradebook(files).students] == [2, 2]


@pytest.mark.parametrize(
    ("graded", "reason"),
    [
        (report(verdict("parity"), verdict("speed", Status.INCONCLUSIVE)), "speed (inconclusive)"),
        (report(verdict("parity"), suspicions=("It is faster than light.",)), "It is faster than light."),
        (report_of(EXERCISE, Outcome.INTERNAL_ERROR, reason="The worker broke."), "The worker broke."),
        (report_of(EXERCISE, Outcome.NOT_GRADABLE_HERE, reason="It needs mps."), "It needs mps."),
    ],
)
def test_a_report_that_is_not_final_is_an_open_mark(graded: Report, reason: str) -> None:
    kims = mark(graded)
    assert (kims.status, kims.mark) == (MarkStatus.OPEN, None)
    assert reason in kims.reason


def test_refused_ungraded_and_missing_files_have_different_standings() -> None:
    refused = mark(None, refusal="It is too large.")
    assert (refused.status, refused.mark, refused.outcome) == (MarkStatus.REFUSED, None, Outcome.REJECTED)
    assert "It is too large." in refused.reason
    by_judge = mark(report_of(EXERCISE, Outcome.REJECTED, reason="It is no text."))
    assert (by_judge.status, by_judge.mark) == (MarkStatus.REFUSED, None)
    waiting = mark(None)
    assert (waiting.status, waiting.mark, waiting.outcome) == (MarkStatus.NOT_GRADED, None, None)
    book = gradebook([Upload("kim", points(1, 2))], students=[Student("lee")])
    nothing = book.student("lee").mark_of(EXERCISE)
    assert (nothing.status, nothing.mark, nothing.of) == (MarkStatus.NOT_HANDED_IN, 0, 2)
    assert book.student("lee").final


def test_the_best_or_last_attempt_counts_unless_another_could_be_better() -> None:
    reports = (points(3, 4), points(4, 4), points(1, 4))
    assert mark(*reports).points == 4
    assert "2 of 3" in mark(*reports).reason
    assert mark(*reports, rules=Rules(attempts="last")).points == 1
    equal = mark(points(3, 4), points(3, 4))
    assert equal.counted is equal.attempts[0]


@pytest.mark.parametrize(
    ("rules", "expected", "words"),
    [
        (Rules(max_attempts=2), 3, "Attempt 2 of 4 counts: the best of the first 2, which may count."),
        (Rules(max_attempts=2, attempts="last"), 3, "Attempt 2 of 4 counts: the last of the first 2, which may count."),
        (Rules(max_attempts=1), 1, "Attempt 1 of 4 counts: the best of the first 1, which may count."),
        (Rules(max_attempts=4), 5, "Attempt 3 of 4 counts: the best."),
        (Rules(attempts="last"), 4, "Attempt 4 of 4 counts: the last."),
        (replace(own(max_attempts=3), max_attempts=1), 5, "Attempt 3 of 4 counts: the best of the first 3"),
    ],
)
def test_only_the_first_attempts_may_count(rules: Rules, expected: int, words: str) -> None:
    kims = mark(*(points(earned, 5) for earned in (1, 3, 5, 4)), rules=rules)
    assert (kims.status, kims.points) == (MarkStatus.FINAL, expected)
    assert kims.reason.startswith(words)
    book = gradebook([Upload("kim", points(earned, 5)) for earned in (1, 3, 5, 4)], rules)
    assert words in " ".join(student_view(book.students[0].marks[0], book.exercises[0], rules).notes)


def test_the_platforms_numbers_limit_attempts() -> None:
    files = [Upload("kim", points(4, 4))]
    submission = replace(gradebook(files).class_.submissions[0], attempt=3)
    class_ = replace(gradebook(files).class_, submissions=(submission,))
    graded = {submission: GradedAttempt(None, points(4, 4))}
    assert gradebook_of(class_, graded, Rules(max_attempts=3), {}).students[0].points == 4
    book = gradebook_of(class_, graded, Rules(max_attempts=2), {})
    kims = book.students[0].marks[0]
    assert (kims.status, kims.mark, kims.points) == (MarkStatus.OPEN, None, 0)
    assert "Only the first 2 attempts count" in kims.reason
    assert any("max_attempts" in notice.title and "kim" in notice.title for notice in book.notices)


def test_a_mark_is_open_while_an_attempt_could_still_become_better() -> None:
    could = report(verdict("placement", of=2), verdict("speed", Status.INCONCLUSIVE, of=2))
    kims = mark(could, report(verdict("placement", Status.FAILED, of=2), verdict("speed", of=2)))
    assert (kims.status, kims.mark, kims.points) == (MarkStatus.OPEN, None, 2)
    assert "1 of 2" in kims.reason
    assert mark(could, report(verdict("placement", of=2), verdict("speed", of=2))).mark == 4
    cannot = report(verdict("placement", Status.FAILED, of=2), verdict("speed", Status.INCONCLUSIVE, of=2))
    assert mark(cannot, report(verdict("placement", of=2), verdict("speed", Status.FAILED, of=2))).mark == 2
    files = [Upload("kim", points(3, 4)), Upload("kim", None, refusal="It is a link.")]
    assert gradebook(files).student("kim").points == 3
    last = gradebook(files, Rules(attempts="last")).student("kim")
    assert last.marks[0].status is MarkStatus.REFUSED


def test_each_started_day_costs_its_share_after_a_grace_period() -> None:
    rules = Rules(due=DUE, late=TEN_PER_DAY)
    assert mark(points(4, 5), rules=rules, submitted_at=after(seconds=0)).mark == 4
    late = mark(points(4, 5), rules=rules, submitted_at=after(hours=25))
    assert late.mark == 3.2
    assert late.counted is not None
    assert late.counted.deduction == pytest.approx(0.8)
    assert (late.counted.lateness.periods, late.counted.lateness.per_cent) == (2, 20)
    of_possible = replace(rules, late=replace(TEN_PER_DAY, taken_from="possible"))
    assert mark(points(4, 5), rules=of_possible, submitted_at=after(hours=25)).mark == 3
    assert mark(points(4, 5), rules=of_possible, submitted_at=after(days=40)).mark == 0
    policy = LatePolicy(per_cent=20, per="hour", grace_minutes=10, most_per_cent=50, reject_after_hours=24)
    rules = Rules(due=DUE, late=policy)
    marks = {
        minutes: mark(points(4, 4), rules=rules, submitted_at=after(minutes=minutes)).mark
        for minutes in (10, 11, 61, 600, 1441)
    }
    assert marks == {10: 4, 11: 3.2, 61: 2.4, 600: 2, 1441: 0}
    too_late = mark(points(4, 4), rules=rules, submitted_at=after(days=2))
    assert (too_late.status, too_late.mark) == (MarkStatus.FINAL, 0)
    assert mark(points(4, 4), rules=Rules(late=TEN_PER_DAY), late=True).mark == 3.6
    rejecting = [Rules(late=LatePolicy(reject_after_hours=hours, grace_minutes=90)) for hours in (0, 2)]
    assert [mark(points(4, 4), rules=rules, late=True).mark for rules in rejecting] == [0, 4]
    in_time = Rules(due=DUE, late=TEN_PER_DAY)
    assert mark(points(4, 4), rules=in_time, late=True, submitted_at=after(hours=-1)).mark == 4


@pytest.mark.parametrize(
    ("rules", "earned"),
    [
        (Rules(due=DUE, late=LatePolicy(per_cent=50)), 3),
        (Rules(attempts="last", due=DUE, late=LatePolicy(reject_after_hours=1)), 0),
    ],
)
def test_an_attempt_in_time_may_count_before_a_better_late_one(rules: Rules, earned: int) -> None:
    files = [Upload("kim", points(earned, 5), submitted_at=after(hours=-1))]
    files.append(Upload("kim", points(5, 5), submitted_at=after(hours=2)))
    kims = gradebook(files, rules).student("kim").marks[0]
    assert (kims.mark, kims.counted) == (earned, kims.attempts[0])


def test_dropped_exercises_do_not_count_nor_keep_the_total_open() -> None:
    third = "keep_the_data_moving/stop_the_ping_pong"
    files = [
        Upload("kim", points(1, 4)),
        Upload("kim", points(3, 4, exercise=OTHER), OTHER),
        Upload("kim", points(4, 4, exercise=third), third),
    ]
    assert (gradebook(files).students[0].points, gradebook(files).students[0].of) == (8, 12)
    fixed = gradebook(files, Rules(drop=(third,))).students[0]
    assert (fixed.points, fixed.of, fixed.mark_of(third).is_dropped) == (4, 8, True)
    lowest = gradebook(files, Rules(drop_lowest=1)).students[0]
    assert (lowest.points, lowest.of, lowest.mark_of(EXERCISE).is_dropped) == (7, 8, True)
    assert gradebook(files, Rules(drop_lowest=9)).students[0].points == 4
    files = [Upload("kim", points(4, 4)), Upload("kim", None, OTHER)]
    assert not gradebook(files, Rules(drop_lowest=1)).students[0].final
    assert gradebook(files, Rules(drop=(OTHER,))).students[0].final


def test_weights_scale_rounding_and_extensions_count() -> None:
    files = [Upload("kim", points(1, 3)), Upload("kim", points(2, 2, exercise=OTHER), OTHER)]
    weighted = replace(own(weight=2), scale=100, decimals=0)
    assert (gradebook(files, weighted).students[0].points, gradebook(files, weighted).students[0].of) == (50, 100)
    thirds = [Upload("kim", points(2, 3))]
    for rounding, expected in (("nearest", 66.67), ("up", 66.67), ("down", 66.66)):
        rules = Rules(scale=100, rounding=rounding)  # type: ignore[arg-type]
        assert gradebook(thirds, rules).students[0].points == expected
    rules = Rules(due=DUE, late=TEN_PER_DAY, extensions=(Extension("kim", hours=48), Extension("lee", OTHER, hours=48)))
    files = [Upload(name, points(4, 4), submitted_at=after(hours=30)) for name in ("kim", "lee")]
    assert [student.points for student in gradebook(files, rules).students] == [4, 3.2]
    assert rules.due_for(EXERCISE, "kim") == DUE + timedelta(hours=48)
    assert rules.due_for(EXERCISE) == DUE


def test_a_scale_needs_the_points_of_all_exercises() -> None:
    files = [Upload("kim", points(4, 4))]
    of_two = Rules(assigned=(EXERCISE, OTHER), scale=100)
    made = gradebook(files, of_two)
    assert not made.students[0].final
    assert any(OTHER in notice.title and "scale" in notice.title for notice in made.notices)
    assert gradebook(files, replace(of_two, drop=(OTHER,))).students[0].final
    assert gradebook(files, replace(of_two, scale=None)).students[0].final


@pytest.mark.parametrize(("points", "expected"), [(0.1 + 0.2, 0.3), (2.5, 2.5), (0.125, 0.13), (1.005, 1.01)])
def test_halves_round_up_but_float_errors_do_not(points: float, expected: float) -> None:
    assert Rules().rounded(points) == expected
    assert Rules(rounding="up").rounded(0.1 + 0.2) == 0.3


def test_only_assigned_exercises_and_known_checks_count() -> None:
    with pytest.raises(UsageError) as raised:
        gradebook([Upload("kim", points(1, 2))], own(hidden=("party",)))
    assert f"exercises.'{EXERCISE}'.hidden" in raised.value.title
    assert "'parity'" in raised.value.advice
    book = gradebook([Upload("kim", None)], own(points={"party": 2}))
    assert any("'party'" in notice.title for notice in book.notices)
    book = gradebook([Upload("kim", points(1, 2))], Rules(assigned=(OTHER,)))
    assert [each.exercise for each in book.exercises] == [OTHER]
    assert book.students[0].marks[0].status is MarkStatus.NOT_HANDED_IN
    assert [EXERCISE in notice.title for notice in book.notices] == [True, False]


@st.composite
def reports(draw: st.DrawFn) -> Report | None:
    """Any report on the same four checks, or none."""
    if draw(st.integers(0, 9)) == 0:
        return None
    statuses = draw(st.lists(st.sampled_from(Status), min_size=4, max_size=4))
    worth = {"placement": 1.0, "parity": 3.0, "speed": 0.5, "memory": 0.25}
    suspicions = ("odd",) if draw(st.booleans()) else ()
    return report(
        *(verdict(name, status, of) for (name, of), status in zip(worth.items(), statuses, strict=True)),
        suspicions=suspicions,
    )


FILES = st.lists(
    st.builds(
        Upload,
        st.just("kim"),
        reports(),
        refusal=st.sampled_from(["", "", "", "It is a link."]),
        submitted_at=st.sampled_from(["", after(hours=-1), after(minutes=1), after(hours=30), after(days=9)]),
        late=st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
POLICIES = st.builds(
    LatePolicy,
    per_cent=st.sampled_from([0.0, 10.0, 33.3, 100.0]),
    per=st.sampled_from(["day", "hour"]),
    taken_from=st.sampled_from(["earned", "possible"]),
    grace_minutes=st.sampled_from([0.0, 5.0]),
    most_per_cent=st.sampled_from([25.0, 100.0]),
    reject_after_hours=st.sampled_from([None, 24.0]),
)
FEW = settings(max_examples=25)
RULES = st.builds(
    Rules,
    attempts=st.sampled_from(["best", "last"]),
    due=st.sampled_from([None, DUE]),
    late=POLICIES,
    decimals=st.integers(0, 3),
    rounding=st.sampled_from(["nearest", "up", "down"]),
    scale=st.sampled_from([None, 100.0]),
    exercises=st.sampled_from([{}, {EXERCISE: ExerciseRules(extra=("memory",), points={"parity": 0.337}, weight=2)}]),
)


@given(FILES, RULES)
@FEW
def test_marks_are_between_zero_and_all_points(files: list[Upload], rules: Rules) -> None:
    book = gradebook(files, rules)
    most = (book.exercises[0].known_of or 0) + book.exercises[0].extra
    kims = book.students[0].marks[0]
    assert 0 <= kims.points <= most
    for attempt in kims.attempts:
        assert 0 <= attempt.points <= attempt.most <= most
        assert 0 <= attempt.deduction <= attempt.earned
    assert (kims.mark is None) == (book.exercises[0].without_mark == 1)
    assert book.students[0].final == (kims.mark is not None and (rules.scale is None or kims.known_of is not None))


@given(FILES, FILES, RULES)
@FEW
def test_another_attempt_never_lowers_the_best(files: list[Upload], more: list[Upload], rules: Rules) -> None:
    rules = replace(rules, attempts="best")
    others = [replace(each, student="lee") for each in more]  # so that the same checks are known
    before = gradebook([*files, *others], rules).student("kim").marks[0]
    after_it = gradebook([*files, more[0], *others], rules).student("kim").marks[0]
    assert after_it.points >= before.points


@given(FILES, RULES, st.randoms(use_true_random=False))
@FEW
def test_the_order_of_files_makes_no_difference(files: list[Upload], rules: Rules, random: Random) -> None:
    files = [*files, *(replace(each, student="lee") for each in files)]
    book = gradebook(files, rules)
    submissions = list(book.class_.submissions)
    pairs = zip(submissions, files, strict=True)
    graded = {submission: GradedAttempt(None, file.report) for submission, file in pairs if not file.refusal}
    random.shuffle(submissions)
    shuffled = replace(book.class_, submissions=tuple(submissions), students=book.class_.students[::-1])
    assert gradebook_of(shuffled, graded, rules, {}).students == book.students
