"""What holds for the marks of any class, under any rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gpututor.classroom.gradebook.build import gradebook_of
from gpututor.classroom.gradebook.marking import GradedAttempt
from gpututor.classroom.rules import ExerciseRules, LatePolicy, Rules
from gpututor.grading.report import Report, Status
from tests.support.gradebooks import EXERCISE, One, gradebook, report, verdict

DUE = datetime(2026, 3, 1, 12, tzinfo=UTC)


def after(**late: float) -> str:
    return (DUE + timedelta(**late)).isoformat()


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
        One,
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
def test_marks_are_never_negative_and_never_above_what_is_to_be_had(files: list[One], rules: Rules) -> None:
    book = gradebook(files, rules)
    most = (book.exercises[0].known_of or 0) + book.exercises[0].extra
    found = book.students[0].marks[0]
    assert 0 <= found.points <= most
    for attempt in found.attempts:
        assert 0 <= attempt.points <= attempt.most <= most
        assert 0 <= attempt.deduction <= attempt.earned
    assert (found.mark is None) == (not book.students[0].final) == (book.exercises[0].without_mark == 1)


@given(FILES, FILES, RULES)
@FEW
def test_adding_an_attempt_never_lowers_the_best(files: list[One], more: list[One], rules: Rules) -> None:
    rules = replace(rules, attempts="best")
    others = [replace(each, student="lee") for each in more]  # so that the same checks are known
    before = gradebook([*files, *others], rules).student("kim").marks[0]
    after_it = gradebook([*files, more[0], *others], rules).student("kim").marks[0]
    assert after_it.points >= before.points


@given(FILES, RULES, st.randoms(use_true_random=False))
@FEW
def test_the_order_of_the_files_makes_no_difference(files: list[One], rules: Rules, random: Random) -> None:
    files = [*files, *(replace(each, student="lee") for each in files)]
    book = gradebook(files, rules)
    handed_in = list(book.class_.handed_in)
    graded = {
        one: GradedAttempt(None, each.report) for one, each in zip(handed_in, files, strict=True) if not each.refusal
    }
    random.shuffle(handed_in)
    shuffled = replace(book.class_, handed_in=tuple(handed_in), students=book.class_.students[::-1])
    assert gradebook_of(shuffled, graded, rules, {}).students == book.students
