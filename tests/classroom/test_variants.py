"""Variants of exercises: values of each student's own in the task, the starter and the grading."""

from __future__ import annotations

import csv
import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from gpututor.authoring.lint import exercise_problems
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.model import MarkStatus
from gpututor.classroom.jobs import Options, class_secret, resolve_options, secret_id
from gpututor.classroom.rules import Rules
from gpututor.classroom.variants import Variants, values_of
from gpututor.cli.main import main
from gpututor.course.loader import load_course, load_exercise
from gpututor.course.model import Course
from gpututor.errors import CourseError
from gpututor.grading.journal import write_entry
from tests.support.classes import ASKED, class_of, report_of, reports_of
from tests.support.tiny_course import append, write_course, write_files

VARIANT = '\n[[variant]]\nname = "factor"\nvalues = ["2", "3", "5"]\n'
STUDENTS = ("kim", "lee", "moe", "nia", "oda", "pia")
TIMES = "def times(number):\n    return {factor} * number\n"
FILES = {
    "task.md": "# Times\n\nReturn {factor} times the number.\n",
    "solution.py": TIMES,
    "starter.py": "def times(number):\n    raise NotImplementedError  # TODO: {factor} times\n",
    "checks.py": (
        "from gpututor.checks import value\n\n\n"
        "def expected(drawn, machine):\n    return {factor} * drawn['number']\n\n\nchecks = [value(expected)]\n"
    ),
}


@pytest.fixture
def course(tmp_path: Path) -> Course:
    folder = write_course(tmp_path / "course", exercises=2)
    exercise = next(folder.glob("*/02_*"))
    manifest = (exercise / "exercise.toml").read_text().replace('"twice"', '"times"')
    (exercise / "exercise.toml").write_text(manifest + VARIANT)
    write_files(exercise, FILES)
    for wrong in (exercise / "wrong").glob("*.py"):
        wrong.write_text(wrong.read_text().replace("twice", "times"))
    append(folder / "course.toml", 'variant_seed = "autumn"\n')
    return load_course(folder)


@pytest.fixture
def roster(tmp_path: Path) -> Path:
    path = tmp_path / "roster.csv"
    path.write_text("id,name\n" + "".join(f"{name},{name.title()} Roe\n" for name in STUDENTS))
    return path


def test_values_follow_from_seed_exercise_and_student(course: Course) -> None:
    exercise = course.exercises[1]
    values = {name: dict(values_of(exercise, name, course.seed))["factor"] for name in STUDENTS}
    assert values == {name: dict(values_of(exercise, name.upper(), course.seed))["factor"] for name in STUDENTS}
    assert set(values.values()) == {"2", "3", "5"}
    others = {name: dict(values_of(exercise, name, "spring"))["factor"] for name in STUDENTS}
    assert others != values
    assert values_of(course.exercises[0], "kim", course.seed) == ()


def test_without_a_student_the_first_values_count(course: Course) -> None:
    exercise = course.exercises[1]
    assert "2 times the number" in exercise.task
    assert exercise.solution == TIMES.replace("{factor}", "2")
    assert exercise.file("wrong/once.py").startswith("# fails: value")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[[variant]]\nname = "a b"\nvalues = ["1", "2"]\n', "variant[1].name"),
        ('[[variant]]\nname = "a"\nvalues = ["1", "1"]\n', "variant[1].values[1]: '1' is listed twice"),
        ('[[variant]]\nname = "a"\nvalues = [1, 2]\n', "variant[1].values[0]"),
        ('[[variant]]\nname = "factor"\nvalues = ["7", "8"]\n', "variant: two variants are called 'factor'"),
    ],
)
def test_a_mistake_in_variants_names_its_key(course: Course, text: str, problem: str) -> None:
    folder = course.exercises[1].folder
    append(folder / "exercise.toml", text)
    with pytest.raises(CourseError) as raised:
        load_exercise(folder)
    assert problem in raised.value.title


def test_each_student_gets_a_copy_with_their_values_only(
    course: Course, roster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "copies"
    words = ["pack-course", "--for", "students", "--course", str(course.folder), "--out"]
    assert main([*words, str(out), "--roster", str(roster)]) == 0
    assert sorted(path.name for path in out.iterdir()) == sorted(
        [*(f"{name}.zip" for name in STUDENTS), "variants.csv"]
    )
    rows = {row["student"]: row for row in csv.DictReader((out / "variants.csv").open())}
    for name in STUDENTS:
        value = dict(values_of(course.exercises[1], name, course.seed))["factor"]
        assert rows[name]["value"] == value
        with zipfile.ZipFile(out / f"{name}.zip") as archive:
            archive.extractall(tmp_path / "unpacked")
            texts = [archive.read(file).decode() for file in archive.namelist()]
        copy = load_course(tmp_path / "unpacked" / name)
        assert f"Return {value} times the number." in copy.exercises[1].task
        assert f"TODO: {value} times" in copy.exercises[1].starter
        assert copy.exercises[1].variants == ()
        assert not any("variant" in text or "autumn" in text or "{factor}" in text for text in texts)
    assert main([*words, str(out), "--roster", str(roster)]) == 2
    capsys.readouterr()
    assert main([*words, str(tmp_path / "same.zip")]) == 0
    assert "first variant of 1.2" in capsys.readouterr().out


def submissions(course: Course, folder: Path, *, names: dict[str, str]) -> Path:
    """Write each student's solution of their own variant, under the name of their folder."""
    for student, name in names.items():
        value = dict(values_of(course.exercises[1], student, course.seed))["factor"]
        (folder / name).mkdir(parents=True)
        (folder / name / "twice_1_2.py").write_text(TIMES.replace("{factor}", value))
        (folder / name / "twice_1_1.py").write_text("def twice(number):\n    return 2 * number\n")
    return folder


def test_submissions_are_graded_with_the_students_values(course: Course, roster: Path, tmp_path: Path) -> None:
    names = {"kim": "kim", "lee": "Lee Roe", "moe": "moe", "nia": "nia"}
    submitted = submissions(course, tmp_path / "in", names=names)
    (submitted / "oda").mkdir()
    odas = dict(values_of(course.exercises[1], "oda", course.seed))["factor"]
    wrong = next(value for value in ("2", "3", "5") if value != odas)
    (submitted / "oda" / "twice_1_2.py").write_text(TIMES.replace("{factor}", wrong))
    out = tmp_path / "graded"
    words = ["classroom", "grade", str(submitted), "--out", str(out), "--course", str(course.folder)]
    assert (
        main([*words, "--roster", str(roster), "--isolation", "process", "--judges", "1", "--device", "virtual"]) == 0
    )
    folder = ClassFolder(out)
    outcomes = {
        (submission.student, submission.exercise): report.outcome.value
        for submission, _, report in reports_of(folder)
        if report is not None
    }
    varying = course.exercises[1].key
    assert {student: outcome for (student, key), outcome in outcomes.items() if key == varying} == {
        **dict.fromkeys(names.values(), "passed"),
        "oda": "failed",
    }
    assert all(outcome == "passed" for (_, key), outcome in outcomes.items() if key != varying)
    book = make_gradebook(folder, Rules(), with_names=False)
    assert {mark.status for marks in book.students for mark in marks.marks if mark.counted} == {MarkStatus.FINAL}
    options = Options.read(folder)
    assert [options.has_variants(exercise.key) for exercise in course.exercises] == [False, True]
    assert main(["classroom", "regrade", str(out), "kim", "1.2"]) == 0
    assert json.loads((out / "options.json").read_text())["exercises"][0]["versions"] == []
    assert not list(course.folder.rglob("variants"))


@pytest.mark.long
def test_without_a_roster_everybody_is_graded_with_the_first_values(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    varying = course.exercises[1]
    for name in STUDENTS:
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / f"{varying.slug}.py").write_text(varying.solution)
    out = tmp_path / "graded"
    words = ["classroom", "grade", str(tmp_path / "in"), "--out", str(out), "--course", str(course.folder)]
    assert main([*words, "--isolation", "process", "--judges", "1", "--device", "virtual"]) == 0
    assert "Without a roster, all students are graded with the first values of 1.2" in " ".join(
        capsys.readouterr().out.split()
    )
    outcomes = {report.outcome.value for _, _, report in reports_of(ClassFolder(out)) if report is not None}
    assert outcomes == {"passed"}
    assert not Options.read(ClassFolder(out)).has_variants(varying.key)


def test_a_student_who_is_not_in_the_roster_has_the_first_values(course: Course, tmp_path: Path) -> None:
    varying, folder = course.exercises[1], ClassFolder(tmp_path / "graded")
    class_ = class_of(folder, [(name, varying.key, "") for name in STUDENTS], course.folder)
    folder.roster_file.write_text("id\n" + "\n".join(STUDENTS[:-1]))
    variants = Variants(class_, course, folder)
    assert f"Not in the roster: {STUDENTS[-1]}." in variants.notice()
    *enrolled, missing = (variants.exercise_for(submission).solution for submission in class_.submissions)
    assert missing == varying.solution
    values = [dict(values_of(varying, name, course.seed))["factor"] for name in STUDENTS[:-1]]
    assert enrolled == [TIMES.replace("{factor}", value) for value in values]
    folder.roster_file.write_text("id\n" + "\n".join(STUDENTS))
    assert Variants(class_, course, folder).notice() == ""


def test_the_log_has_only_gradings_with_the_students_values(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    varying, folder = course.exercises[1], ClassFolder(tmp_path / "graded")
    class_ = class_of(folder, [(name, varying.key, "same") for name in STUDENTS], course.folder)
    folder.roster_file.write_text("id\n" + "\n".join(STUDENTS))
    asked = replace(ASKED, device="virtual", secret=secret_id(class_secret(folder.secret_file)))
    options = resolve_options(asked, class_, course, (), "2.9.0", Variants(class_, course, folder))
    options.write(folder)
    versions = {}
    for submission in class_.submissions:
        key = options.key_of(submission)
        assert key is not None
        versions[key.exercise_version] = key
    assert len(versions) == 3
    for key in versions.values():
        write_entry(folder.journal, key, report_of(varying.key))
    for names in ([], ["--pseudonyms"]):
        assert main(["classroom", "log", str(folder.folder), "--json", *names]) == 0
        entries = json.loads(capsys.readouterr().out)["entries"]
        assert len({entry["student"] for entry in entries}) == len(entries) == len(STUDENTS)


def test_options_without_versions_can_be_read(tmp_path: Path) -> None:
    folder = ClassFolder(tmp_path)
    keys = ("device", "gpu", "isolation", "gpututor", "torch", "secret", "layout", "exercise")
    exercises = [{"exercise": "a/b", "version": "1", "device": "virtual"}]
    folder.options_file.write_text(json.dumps({**dict.fromkeys(keys, ""), "exercises": exercises, "schema_version": 1}))
    assert Options.read(folder).exercises[0].versions == ()


@pytest.mark.long
def test_gradescopes_autograder_grades_with_the_students_values(course: Course, tmp_path: Path) -> None:
    roster, image, root = tmp_path / "roster.csv", tmp_path / "image.zip", tmp_path / "autograder"
    roster.write_text("id,email,extension\n" + "".join(f"{name},{name}@example.org,48\n" for name in STUDENTS))
    words = ["classroom", "gradescope-image", "1.2", "--course", str(course.folder), "-o", str(image)]
    assert main(words) == 2
    assert main([*words[:2], "1.1", *words[3:], "--roster", str(roster)]) == 2
    assert not image.exists()
    assert main([*words, "--roster", str(roster)]) == 0
    shutil.unpack_archive(image, root / "source")
    # Extensions are in the metadata.
    assert (root / "source" / "roster.csv").read_text().startswith("id,name,email\nkim,,kim@example.org\n")
    values = {name: dict(values_of(course.exercises[1], name, course.seed))["factor"] for name in STUDENTS}
    other = next(name for name in STUDENTS if values[name] != values["kim"])
    (root / "submission").mkdir()
    (root / "submission" / "solution.py").write_text(TIMES.replace("{factor}", values["kim"]))

    def grade(*names: str) -> tuple[float, str]:
        users = [{"name": name, "email": f"{name.upper()}@example.org"} for name in names]
        (root / "submission_metadata.json").write_text(json.dumps({"users": users}))
        assert main(["classroom", "gradescope-grade", str(root)]) == 0
        results = json.loads((root / "results" / "results.json").read_text())
        return results["score"], results["output"]

    assert [grade("kim")[0], grade(other)[0]] == [1.0, 0.0]
    score, output = grade("zoe")
    assert (score, "roster" in output, "ZOE@example.org" in output) == (0.0, True, True)
    score, output = grade("kim", other)
    assert (score, "group" in output) == (0.0, True)


def test_verify_finds_a_variant_without_a_place(course: Course) -> None:
    folder = course.exercises[1].folder
    assert not [problem for problem in exercise_problems(load_exercise(folder), course) if "variant" in problem.key]
    append(folder / "exercise.toml", '[[variant]]\nname = "size"\nvalues = ["1", "2"]\n')
    (problem,) = (each for each in exercise_problems(load_exercise(folder), course) if "variant" in each.key)
    assert problem.key == "variant[1].name"


@pytest.mark.long
def test_verify_grades_each_value(course: Course, capsys: pytest.CaptureFixture[str]) -> None:
    exercise = course.exercises[1]
    words = ["verify", str(exercise.folder), "--no-mutants", "--workers", "1", "--json"]
    main(words)
    subjects = {subject["name"]: subject for subject in json.loads(capsys.readouterr().out)["subjects"]}
    assert set(subjects) == {f"1.2 twice_1_2{note}" for note in ("", " (factor=3)", " (factor=5)")}
    assert all(subject["right"] == {"kept": 1, "of": 1} for subject in subjects.values())
    (exercise.folder / "solution.py").write_text("def times(number):\n    return 2 * number\n")
    main(words)
    kept = {each["name"]: each["right"]["kept"] for each in json.loads(capsys.readouterr().out)["subjects"]}
    assert kept == {"1.2 twice_1_2": 1, "1.2 twice_1_2 (factor=3)": 0, "1.2 twice_1_2 (factor=5)": 0}
