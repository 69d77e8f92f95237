"""The review list: similar texts, reports that need a person, and `classroom review`."""

from __future__ import annotations

import csv
import json
import random
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.jobs import ExerciseOptions, JobFailure, Options, write_failures
from gpututor.classroom.review import Item, Review, ReviewReason, review_of
from gpututor.classroom.review.similarity import (
    FEWEST,
    WINDOW,
    K,
    fingerprints,
    hashes_of,
    similar,
    template_of,
    texts_of,
)
from gpututor.classroom.review.tokens import tokens_of, words_of
from gpututor.classroom.rules import Rules
from gpututor.classroom.submissions import Student, Submission, Unmatched
from gpututor.cli.main import main
from gpututor.course.loader import load_course
from gpututor.grading.journal import exercise_digest, write_entry
from gpututor.grading.report import Outcome, Report, Status
from gpututor.grading.report_text import LEAST_TIME
from tests.support.classes import class_of, key_at, report_of
from tests.support.gradebooks import report, verdict
from tests.support.tiny_course import FILES, write_course

EXERCISE = "lesson_1/twice_1_1"


@pytest.fixture(scope="module")
def course_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_course(tmp_path_factory.mktemp("review") / "course", exercises=2)


def program(seed: int, lines: int = 24) -> str:
    """Return a random program."""
    chance = random.Random(seed)
    words = [f"{verb}_{noun}" for verb in ("roll", "stack", "flip", "sort", "pad", "join") for noun in "abcdefgh"]
    made = [f"    x{n} = torch.{chance.choice(words)}(x{n - 1}, {n}) {chance.choice('+-*/')} y.{chance.choice(words)}()"
            for n in range(1, lines)]  # fmt: skip
    return "\n".join(["def twice(x0, y):", *made, f"    return x{lines - 1}", ""])


def disguised(text: str) -> str:
    """Return the same program with other names, comments and blank lines."""
    text = re.sub(r"\bx(\d+)", r"value_\1", text).replace("y.", "other.").replace("(x0, y)", "(value_0, other)")
    return "# Mine.\n" + text.replace("\n", "  # so\n\n").replace(", 7)", ", 7_000)")


def review(folder: Path, course: Path, submissions: list[tuple[str, str, str]], share: float = 0.7) -> Review:
    """Review a class that is not graded."""
    out = ClassFolder(folder / "out")
    class_of(out, submissions, course)
    options_for(out, course)
    return review_of(out, make_gradebook(out, Rules(), None), share)


def options_for(out: ClassFolder, course: Path) -> None:
    each = [
        ExerciseOptions(exercise.key, exercise_digest(exercise.folder), "virtual")
        for exercise in load_course(course).exercises
    ]
    Options("auto", "", "bubblewrap", "1", "2", "s", "folders", "", tuple(each)).write(out)


def of(result: Review, kind: ReviewReason) -> list[Item]:
    return [item for item in result.items if item.kind is kind]


def test_fingerprints_ignore_disguises_and_the_template() -> None:
    text = program(1)
    assert disguised(text) != text
    assert list(tokens_of(disguised(text))) == list(tokens_of(text))
    assert fingerprints(disguised(text)) == fingerprints(text)
    assert list(tokens_of("a = b.zeros(c, 'd')")) == ["name", "=", "name", ".", "zeros", "(", "name", ",", "''", ")"]
    assert not fingerprints(text) & fingerprints("for i in range(10):\n    print(i, end='')\n" * 4)
    assert hashes_of("def f(x): return x + x")[:2] == [440857165199255204]
    starter = program(5)
    text = starter + program(6)
    left = fingerprints(text, template_of([starter]))
    assert left
    assert left <= set(hashes_of(text)) - set(hashes_of(starter))
    assert not fingerprints(disguised(starter), template_of([starter]))
    for start in range(20):
        shared = list(tokens_of(program(3)))[start : start + K + WINDOW - 1]
        item, other = " ".join(["if", *shared, "else"]), " ".join([*["while ~"] * start, *shared, *["await"] * 9])
        assert fingerprints(item) & fingerprints(other)


@pytest.mark.parametrize(
    "text", ["", "x", "'''" + "a" * 99, '"' * 50, "def f(:\n\t\\", "((((" * 5000, "\x00\ud800é", "'\\"]
)
def test_any_text_has_fingerprints(text: str) -> None:
    assert len(fingerprints(text)) <= len(hashes_of(text))


def test_similar_and_identical_texts_of_different_students_form_clusters(tmp_path: Path, course_folder: Path) -> None:
    mine = program(1)
    submissions = [("ada", EXERCISE, mine), ("kim", EXERCISE, disguised(mine)), ("lee", EXERCISE, mine + program(2, 6))]
    submissions += [(f"other{number}", EXERCISE, program(number)) for number in range(10, 16)]
    result = review(tmp_path, course_folder, submissions)
    (cluster,) = of(result, ReviewReason.ALIKE)
    assert cluster.students == ("ada", "kim", "lee")
    words = shlex.split(cluster.command)
    assert (words[:2], words[4:]) == (["diff", "-u"], ["|", "less"])  # less escapes control characters
    assert all(Path(word).is_file() for word in words[2:4])
    assert result.compared[0].texts == result.compared[0].compared == 9
    result = review(tmp_path, course_folder, [(name, EXERCISE, program(1)) for name in ("kim", "lee", "ada")])
    (item,) = result.items
    assert (item.kind, item.students) == (ReviewReason.IDENTICAL, ("ada", "kim", "lee"))
    result = review(tmp_path, course_folder, [("kim", EXERCISE, text) for text in (mine, disguised(mine), mine)])
    assert not result.items
    assert result.compared[0].compared == 2
    half = program(1, 12)
    submissions = [("ada", EXERCISE, half + program(2, 14)), ("kim", EXERCISE, half + program(3, 14))]
    assert not of(review(tmp_path, course_folder, submissions, 0.7), ReviewReason.ALIKE)
    (item,) = of(review(tmp_path, course_folder, submissions, 0.3), ReviewReason.ALIKE)
    assert item.students == ("ada", "kim")
    source = program(1)
    shared = [(f"s{n:02}", EXERCISE, disguised(source) + f"\n# {n}\n") for n in range(15)]
    shared += [("s99", EXERCISE, source + program(99, 30))]  # with much code of its own
    others = [(f"t{n}", EXERCISE, program(100 + n)) for n in range(5)]
    result = review(tmp_path, course_folder, [*shared, *others])
    (item,) = result.items
    assert (item.kind, item.students) == (ReviewReason.ALIKE, tuple(student for student, *_ in shared))
    assert item.why.startswith("16 texts of 16 people")
    short = FILES["solution.py"].replace("2 * number", "number + number")
    everyone = [(f"s{number:02}", EXERCISE, short + "#" * (number % 3)) for number in range(30)]
    everyone += [("ada", EXERCISE, FILES["solution.py"]), ("kim", EXERCISE, FILES["starter.py"])]
    result = review(tmp_path, course_folder, everyone)
    assert [item.kind for item in result.items] == [ReviewReason.IDENTICAL] * 3
    assert all("little code of its own" in item.why for item in result.items)
    (how,) = result.compared
    assert (how.texts, how.compared, how.fingerprints, how.solutions) == (5, 0, 0, 1)


def test_only_newest_attempts_are_compared_without_common_fingerprints() -> None:
    files = [Submission("kim", EXERCISE, f"{n}.py", f"{n:064x}", attempt=n) for n in range(1, 1001)]
    assert [text.files[0].attempt for text in texts_of(files)] == list(range(981, 1001))
    idiom = program(1)
    files = [Submission(f"s{number}", EXERCISE, f"{number}.py", f"{number:064x}") for number in range(12)]
    result = similar(texts_of(files), lambda digest: idiom + program(100 + int(digest, 16), 30), (), 0.5)
    assert result.common >= FEWEST
    assert (result.clusters, result.compared) == ((), 12)
    few = similar(texts_of(files[:10]), lambda digest: idiom + program(100 + int(digest, 16), 30), (), 0.4)
    assert (few.common, len(few.clusters)) == (0, 1)


def test_the_file_of_a_group_is_not_reported() -> None:
    text = program(1)
    shared = [Submission(name, EXERCISE, "group/twice.py", "a" * 64) for name in ("kim", "lee")]
    again = [replace(file, sha256="b" * 64, source="group/again.py", attempt=2) for file in shared]
    texts = texts_of([*shared, *again])
    result = similar(texts, lambda digest: text if digest[0] == "a" else disguised(text), (), 0.7)
    assert (result.pairs, result.clusters, result.compared) == ((), (), 2)
    other = Submission("moe", EXERCISE, "moe/twice.py", "a" * 64)
    (same,) = similar(texts_of([*shared, other]), lambda _: text, (), 0.7).pairs
    assert same.is_identical
    assert len(same.texts[0].parties) == 2


@pytest.mark.parametrize("name", ["starter.py", "solution.py"])
def test_identical_short_texts_are_listed_unless_the_course_gives_them(
    tmp_path: Path, course_folder: Path, name: str
) -> None:
    given = FILES[name]
    copied = given + "# by kim\n"
    files = [
        *(("kim", EXERCISE, text) for text in (given, copied)),
        *(("lee", EXERCISE, text) for text in (given, copied)),
    ]
    (item,) = review(tmp_path, course_folder, files).items
    assert (item.kind, item.students, {file.attempt for file in item.files}) == (
        ReviewReason.IDENTICAL,
        ("kim", "lee"),
        {2},
    )


def test_students_with_platform_numbers_are_shown_with_names(
    tmp_path: Path, course_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ClassFolder(tmp_path / "out")
    result = class_of(out, [(name, EXERCISE, program(1)) for name in ("23", "24")], course_folder)
    out.write_class(replace(result, students=(Student("23", "moelee"), Student("24", "x\x1b"))))
    options_for(out, course_folder)
    assert main(["classroom", "review", str(out.folder), "--csv", str(tmp_path / "list.csv")]) == 0
    assert "23 (moelee), 24 (x\\x1b)\n" in capsys.readouterr().out
    assert "23 (moelee); 24 (x\\x1b)" in (tmp_path / "list.csv").read_text()


SHORT = """def twice(number):
    # i double it because the gpu likes that
    my_result_a = number
    {name} = my_result_a + number
    return {name}
"""


def test_names_and_comments_are_evidence_for_short_texts(
    tmp_path: Path, course_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {
        "ada": SHORT.format(name="sum_of_both"),
        "kim": SHORT.format(name="summe").replace("    ", "  "),
        "lee": "def twice(number):\n    total = number\n    total += number\n    return total\n",
        "moe": "def twice(number):\n    both = number\n    return both + number\n",
        "sue": "def twice(number):\n    both = number\n    return both + number\n",
    }
    result = review(tmp_path, course_folder, [(student, EXERCISE, text) for student, text in texts.items()])
    same, alike = result.items
    assert (same.kind, same.students) == (ReviewReason.IDENTICAL, ("moe", "sue"))
    assert "`both`" in same.why
    assert (alike.kind, alike.students) == (ReviewReason.ALIKE, ("ada", "kim"))
    assert "89% of their names and comments" in alike.why
    (how,) = result.compared
    assert (how.texts, how.compared, how.compared_words) == (4, 0, 2)

    out = tmp_path / "out"
    assert main(["classroom", "review", str(out), "--csv-pairs", str(tmp_path / "pairs.csv"), "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["pairs"]
    assert (first["students"], first["other_students"], first["per_cent"]) == (["moe"], ["sue"], 100)
    assert (second["per_cent"], second["code"], second["words"]) == (89, None, {"common": 8, "of": 9})
    assert "gpu likes" in second["shared_words"]
    assert "my_result_a" in second["shared_words"]
    rows = list(csv.DictReader((tmp_path / "pairs.csv").read_text().splitlines()))
    assert [(row["students"], row["other_students"], row["per_cent"]) for row in rows] == [
        ("moe", "sue", "100%"),
        ("ada", "kim", "89%"),
    ]
    assert Path(rows[1]["file"]).read_text() == texts["ada"]
    assert main(["classroom", "review", str(out)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["89%", "–", "8/9", "1.1", "ada", "/", "kim"] in lines


def test_words_are_the_students_own() -> None:
    text = "import numpy as nump\nfrom torch import zeros\nvalue_1 = nump.arange(9, dtype=zeros)\nprint(self, row2)\n"
    assert words_of(text) == {"value", "row"}
    assert words_of('"""Never mind the gap."""\nx = 1  # Never mind!\n') == {"never mind", "mind the", "the gap"}


def test_words_of_many_people_are_no_evidence() -> None:
    files = [Submission(f"s{number:02}", EXERCISE, f"{number}.py", f"{number:064x}") for number in range(12)]
    words = "alpha beta gamma delta epsilon zeta eta".replace(" ", " = ")
    few = similar(texts_of(files[:10]), lambda digest: f"{words} = {int(digest, 16)}", (), 0.7)
    assert (len(few.pairs), few.compared_words) == (45, 10)
    assert {(pair.code, pair.share) for pair in few.pairs} == {(None, 1.0)}
    many = similar(texts_of(files), lambda digest: f"{words} = {int(digest, 16)}", (), 0.7)
    assert (many.pairs, many.compared_words) == ((), 0)


def test_the_order_of_submissions_makes_no_difference(tmp_path: Path, course_folder: Path) -> None:
    submissions = [(f"s{n}", EXERCISE, disguised(program(n % 3)) if n % 2 else program(n % 3)) for n in range(9)]
    first = review(tmp_path / "a", course_folder, submissions)
    second = review(tmp_path / "b", course_folder, submissions[::-1])
    assert len(first.items) == 6
    assert [(item.kind, item.students, item.why) for item in first.items] == [
        (item.kind, item.students, item.why) for item in second.items
    ]


def graded(folder: Path, course: Path, reports: list[Report | None]) -> ClassFolder:
    """Make a class with a student for each report; None is not graded."""
    out = ClassFolder(folder / "out")
    class_of(out, [(f"s{n:02}", EXERCISE, f"x = {n}\n") for n in range(len(reports))], course)
    options_for(out, course)
    for position, each in enumerate(reports):
        if each is not None:
            write_entry(out.journal, key_at(out, position), each)
    return out


def reviewed(out: ClassFolder) -> Review:
    return review_of(out, make_gradebook(out, Rules(), None))


def test_open_reports_are_listed_with_a_command(tmp_path: Path, course_folder: Path) -> None:
    noisy = verdict("speed", Status.INCONCLUSIVE, got="60 pairs decided nothing: the machine is noisy")
    odd = verdict("parity", Status.NEEDS_REVIEW, got="an unforeseen result")
    below = verdict("speed", Status.NEEDS_REVIEW, got=f"0.01 × the baseline's time; 3 µs a call {LEAST_TIME}")
    suspicions = (
        "torch.cuda.synchronize was replaced while the submission ran",
        "a kernel was faster than cuda:0 can be",
    )
    broken = report_of(EXERCISE, Outcome.INTERNAL_ERROR, reason="The judge stopped.")
    fine = report(verdict("parity"), exercise=EXERCISE)
    out = graded(
        tmp_path,
        course_folder,
        [
            report(noisy, exercise=EXERCISE),
            report(odd, exercise=EXERCISE),
            report(below, exercise=EXERCISE),
            report(verdict("parity"), exercise=EXERCISE, suspicions=suspicions),
            broken,
            fine,
        ],
    )
    result = reviewed(out)
    assert [(item.kind, item.students) for item in result.items] == [
        (ReviewReason.NEEDS_REVIEW, ("s01",)),
        (ReviewReason.NEEDS_REVIEW, ("s03",)),
        (ReviewReason.SPEED, ("s02",)),
        (ReviewReason.SPEED, ("s03",)),
        (ReviewReason.INCONCLUSIVE, ("s00",)),
        (ReviewReason.INTERNAL_ERROR, ("s04",)),
    ]
    assert "an unforeseen result" in result.items[0].why
    assert "torch.cuda.synchronize" in result.items[1].why
    assert "kernel" not in result.items[1].why
    words = shlex.split(result.items[0].command)
    assert words[:4] == ["gpututor", "grade", EXERCISE, "--file"]
    assert Path(words[4]).read_text() == "x = 1\n"
    assert words[5:] == ["--seed", "1", "--course", str(course_folder)]


def test_failures_and_refusals_are_listed_and_waiting_files_counted(tmp_path: Path, course_folder: Path) -> None:
    out = graded(tmp_path, course_folder, [None, None])
    class_ = out.read_class()
    write_failures(out, [JobFailure(key_at(out, 0), 3, "The judge hung.")])
    refused = replace(class_.submissions[1], student="s09", sha256="", refusal="It is a link; links are not followed.")
    stray = Unmatched("stray/notes.txt", "It is not a Python file.")
    students = (*class_.students, Student("s09"))
    out.write_class(replace(class_, students=students, submissions=(*class_.submissions, refused), unmatched=(stray,)))
    result = reviewed(out)
    assert [(item.kind, item.students) for item in result.items] == [
        (ReviewReason.INTERNAL_ERROR, ("s00",)),
        (ReviewReason.REFUSED, ("s09",)),
        (ReviewReason.UNMATCHED, ()),
    ]
    assert "The judge hung." in result.items[0].why
    assert [item.why for item in result.items[1:]] == [refused.refusal, stray.why]
    assert result.notices[-1].title.startswith("1 file")
    assert all(item.command.endswith("--resume") for item in result.items[1:])


def timed(ratio: float) -> Report:
    words = f"{ratio:.2f} × the baseline's time: 1 ms against 2 ms (modelled)"
    return report(verdict("speed", measured=words), exercise=EXERCISE)


@pytest.mark.parametrize(
    ("ratios", "students"),
    [
        ([0.5] * 10 + [0.1], ["s10"]),
        ([0.5] * 10 + [0.13], []),
        ([0.5] * 8 + [0.01], []),  # too few to tell
        ([0.5] * 10 + [0.1, 0.1], []),  # how some solve it
    ],
)
def test_a_time_far_below_the_median_is_listed(
    tmp_path: Path, course_folder: Path, ratios: list[float], students: list[str]
) -> None:
    out = graded(tmp_path, course_folder, [timed(ratio) for ratio in ratios])
    result = of(reviewed(out), ReviewReason.SPEED)
    assert [student for item in result for student in item.students] == students
    assert all("5 times as fast" in item.why for item in result)


def test_review_prints_the_list_as_text_csv_and_json(
    tmp_path: Path, course_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ClassFolder(tmp_path / "out")
    text = program(1)
    class_of(out, [("=kim", EXERCISE, text), ("lee\x1b[2J", EXERCISE, text)], course_folder, [Unmatched("a\nb", "No.")])
    options_for(out, course_folder)
    words = ["classroom", "review", str(out.folder)]
    assert main([*words, "--csv", str(tmp_path / "list.csv")]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("2 things")
    assert "70%" in said.out
    assert "\x1b" not in said.out
    assert "a\\nb" in said.out
    assert "2 files" in said.err
    rows = list(csv.DictReader((tmp_path / "list.csv").read_text().splitlines()))
    assert [row["kind"] for row in rows] == ["identical", "unmatched"]
    assert rows[0]["students"].startswith("'=kim; lee\\x1b")
    before = out.class_file.read_bytes()
    for option in ("--csv", "--csv-pairs"):
        assert main([*words, option, str(out.class_file)]) == 2
    assert out.class_file.read_bytes() == before
    capsys.readouterr()
    assert main([*words, "--json", "--similar", "0.9"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["similar"], data["fewest"]) == (0.9, FEWEST)
    assert [item["kind"] for item in data["items"]] == ["identical", "unmatched"]
    assert Path(data["items"][0]["files"][0]["submission"]).read_text() == text


@pytest.mark.parametrize("share", ["0", "1.1", "x", "nan"])
def test_an_invalid_threshold_is_refused(share: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["classroom", "review", str(tmp_path), "--similar", share])


def test_the_list_works_without_the_course(tmp_path: Path, course_folder: Path) -> None:
    copy = tmp_path / "course"
    shutil.copytree(course_folder, copy)
    submissions = [("kim", EXERCISE, program(1)), ("lee", EXERCISE, program(1))]
    review(tmp_path, copy, submissions)
    shutil.rmtree(copy)
    result = reviewed(ClassFolder(tmp_path / "out"))
    assert [item.kind for item in result.items] == [ReviewReason.IDENTICAL]
