"""Each layout is recognised, and tells who handed in what."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.submissions import Class, Student
from gpututor.errors import UsageError
from tests.support.class_layouts import Content, Reader, facts, reasons, zipped

LaidOut = Callable[..., Path]
A, B = "a = 1\n", "b = 2\n"
WORKSPACE: dict[str, Content] = {
    "01_meet_the_device/01_find_the_gpu.py": A,
    "05_keep_the_data_moving/01_one_big_copy.py": B,
    ".gpututor.json": "{}",
    ".backups/01_one_big_copy.2026.py": "old",
    "05_keep_the_data_moving/__pycache__/01_one_big_copy.pyc": "",
}
METADATA = """\
submission_1:
  :submitters:
  - :name: Kim Roe
    :sid: '0123'
    :email: kim@example.org
  - :name: Ana Poe
    :sid: '0777'
    :email: ana@example.org
  :created_at: 2026-04-26 17:34:00.861687000 Z
  :score: 2.0
  :results:
    tests:
    - name: :submitters
      output: |-
        submission_9:
  :history:
  - :id: 3
    :created_at: 2026-04-25 01:00:00.000000000 +02:00
    :results: {}
  - :id: 4
    :created_at: 2026-04-26 10:00:00 Z
submission_2:
  :submitters:
  - :name: Lee
    :sid:
    :email: lee@example.org
  :created_at: 2026-04-27 08:00:00 Z
  :history: []
submission_5:
  :submitters: []
"""
GRADESCOPE: dict[str, Content] = {
    "submission_metadata.yml": METADATA,
    "submission_1/one_big_copy.py": A,
    "submission_4/one_big_copy.py": B,
    "submission_2/5.2.py": B,
    "submission_5/5.2.py": B,
    "submission_6/5.2.py": B,
}
MOODLE: dict[str, Content] = {
    "Kim Roe_11_assignsubmission_file_/one_big_copy.py": A,
    "Kim Roe_12_assignsubmission_file/homework.zip": zipped(WORKSPACE),
    "Kim Roe_11_assignsubmission_onlinetext_/onlinetext.html": "<p>done</p>",
    "Élodie d'Or_13_assignsubmission_file_in_place.py": B,
    "readme.txt": "",
}
CANVAS: dict[str, Content] = {
    "roekim_21_901_one_big_copy.py": A,
    "roekim_21_902_one_big_copy-1.py": B,
    "poeana_LATE_22_903_homework-2.zip": zipped(WORKSPACE),
    "leejo_23_text.html": "<p>done</p>",
    "LATE_anon_x1Yz_904_5_2.py": B,
}


def as_zip(folder: Path) -> Path:
    """The whole class as one zip, all of it in a folder, as platforms make it."""
    whole = folder.with_name("export.zip")
    with zipfile.ZipFile(whole, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, f"export_1/{path.relative_to(folder)}")
    return whole


@pytest.fixture(params=["a folder", "a zip"])
def either(request: pytest.FixtureRequest, laid_out: LaidOut) -> LaidOut:
    """The class in a folder, and as one zip."""
    if request.param == "a folder":
        return laid_out
    return lambda files: as_zip(laid_out(files))


def test_a_folder_or_a_zip_for_each_student_may_be_a_workspace_at_any_depth(either: LaidOut, reading: Reader) -> None:
    source = either(
        {f"kim/hand in/{path}": text for path, text in WORKSPACE.items()}
        | {"ana.zip": zipped(WORKSPACE), "Lee/5.2 (1).PY": A, "lee/one_big_copy/solution.py": A, "notes.txt": ""}
    )
    found = reading(source)
    assert found.layout == "folders"
    lower, upper = (student.id for student in found.students if student.id.casefold().startswith("lee"))
    assert lower.casefold() != upper.casefold()
    assert {student for student, _ in facts(found)} == {"ana", "kim", lower, upper}
    assert facts(found)[:4] == [
        (student, name) for student in ("ana", "kim") for name in ("find_the_gpu", "one_big_copy")
    ]
    assert [why for source, why in reasons(found).items()] == ["It lies beside the students' folders, in none of them."]
    assert found.ignored == 6


def test_what_is_kept_is_what_was_handed_in_once_for_the_same_text(
    laid_out: LaidOut, reading: Reader, kept: ClassFolder
) -> None:
    content = "a = 'é'\r\n".encode()
    found = reading(laid_out({"kim/5.1.py": content, "ana/5.1.py": b"\xef\xbb\xbf" + content, "lee/5.2.py": b"#"}))
    one, other, short = (kept.submission(one.sha256) for one in found.handed_in)
    assert one == other
    assert one.read_bytes() == content
    assert short.read_bytes() == b"#"
    one.write_bytes(b"spoilt in a power cut")
    one.with_name(".x.part").write_bytes(b"of a reader that was killed")
    reading(laid_out({}))
    assert one.read_bytes() == content
    assert sorted(path for path in kept.folder.rglob("*") if path.is_file()) == sorted({one, short})
    kept.write_class(found)
    assert kept.read_class() == found


def test_one_file_for_each_student_and_exercise(either: LaidOut, reading: Reader) -> None:
    found = reading(either({"5.1/kim.py": A, "in_place/kim.py": B, "5.1/kim (1).py": A, "1.1/lee/main.py": A}))
    assert found.layout == "files"
    assert facts(found) == [
        ("kim", "one_big_copy"),
        ("kim", "in_place"),
        ("kim (1)", "one_big_copy"),
        ("lee", "find_the_gpu"),
    ]


def test_folders_of_exercises_may_lie_in_those_of_lessons(either: LaidOut, reading: Reader) -> None:
    found = reading(either({f"05_keep_the_data_moving/01_one_big_copy/{name}.py": A for name in ("kim", "lee")}))
    assert found.layout == "files"
    assert facts(found) == [("kim", "one_big_copy"), ("lee", "one_big_copy")]


def test_files_called_after_the_student_and_the_exercise(either: LaidOut, reading: Reader) -> None:
    found = reading(either({"kim__5_1.py": A, "a__b__01_one_big_copy-1.py": B, "kim__6_6.py": A}))
    assert found.layout == "files"
    assert facts(found) == [("a__b", "one_big_copy"), ("kim", "one_big_copy")]
    assert list(reasons(found).values()) == ["It is called neither EXERCISE/STUDENT.py nor STUDENT__EXERCISE.py."]


def test_everything_may_be_said_to_be_for_one_exercise(laid_out: LaidOut, reading: Reader) -> None:
    assert facts(reading(laid_out({"kim.py": A, "lee.py": B}), exercise="5.1")) == [
        ("kim", "one_big_copy"),
        ("lee", "one_big_copy"),
    ]


def test_the_folder_of_the_only_student_is_no_folder_around_all(laid_out: LaidOut, reading: Reader) -> None:
    source = laid_out({"kim/work.py": A})
    assert facts(reading(source, exercise="5.1")) == [("kim", "one_big_copy")]
    packed = as_zip(laid_out({"work.py": A}, "other"))
    assert facts(reading(packed, exercise="5.1")) == [("work", "one_big_copy")]
    assert facts(reading(as_zip(source), "folders", exercise="5.1")) == [("kim", "one_big_copy")]


def test_a_folder_around_a_single_zip_is_the_student_unless_it_came_in_a_zip(
    laid_out: LaidOut, reading: Reader
) -> None:
    pack = zipped({"5.1.py": A, "gpututor-pack.json": "{}"})
    in_folder = laid_out({"kim/gpututor-pack.zip": pack}, "in a folder")
    assert facts(reading(in_folder)) == [("kim", "one_big_copy")]
    assert facts(reading(as_zip(laid_out({"kim.zip": pack}, "on top")))) == [("kim", "one_big_copy")]
    assert facts(reading(laid_out({"kim.zip": pack}, "alone"))) == [("kim", "one_big_copy")]


def test_one_folder_around_everything_is_no_student(laid_out: LaidOut, reading: Reader) -> None:
    pack = zipped({"5.1.py": A, "gpututor-pack.json": "{}"})
    both = [("kim", "one_big_copy"), ("lee", "one_big_copy")]
    assert facts(reading(laid_out({"all/kim.zip": pack, "all/lee.zip": pack}, "two"))) == both
    assert facts(reading(laid_out({"all/kim/pack.zip": pack, "all/lee/pack.zip": pack}, "four"))) == both


@pytest.mark.parametrize("files", [GRADESCOPE, MOODLE, CANVAS, {"kim/5.1.py": A, "lee/5.1.py": A}])
def test_two_folders_around_everything_are_not_read_without_a_layout(
    laid_out: LaidOut, reading: Reader, files: Mapping[str, Content]
) -> None:
    with pytest.raises(UsageError, match="may hold several students, or a whole class") as refusal:
        reading(laid_out({f"all/export/{name}": text for name, text in files.items()}))
    assert "--layout folders" in refusal.value.advice


def test_of_a_student_with_several_files_the_one_that_is_called_after_the_exercise_counts(
    laid_out: LaidOut, reading: Reader
) -> None:
    source = laid_out(
        {
            "kim/work.py": A,
            "ana/one_big_copy.py": A,
            "ana/helper.py": B,
            "lee/solution.py": A,
            "lee/helper.py": B,
            "lee/more.zip": "no zip",
            "tim/all.zip": "no zip",
            "joe/x.py": A,
            "joe/y.py": B,
            "eve/mine.py": A,
            "eve/mine (1).py": B,
            "eve/in_place.py": A,
        }
    )
    found = reading(source, exercise="5.1")
    assert [(one.source, one.attempt) for one in found.handed_in] == [
        ("ana/one_big_copy.py", 1),
        ("eve/mine.py", 1),
        ("eve/mine (1).py", 2),
        ("kim/work.py", 1),
        ("lee/solution.py", 1),
        ("tim/all.zip", 1),
    ]
    assert {one.source for one in found.unmatched} == {
        *("ana/helper.py", "lee/helper.py", "lee/more.zip", "joe/x.py", "joe/y.py", "eve/in_place.py")
    }


def test_whose_a_file_of_no_exercise_is_is_known(laid_out: LaidOut, reading: Reader) -> None:
    packed = zipped({"homework.py": A, "in_place.py": A})
    files = {
        "kim/homework.py": A,
        "kim/in_place.py": A,
        "kim/again/in_place.py": A,
        "lee.zip": packed,
        "notes.txt": "n",
    }
    found = reading(laid_out(files), layout="folders")
    whose = {one.source: (one.students, bool(one.exercise)) for one in found.unmatched}
    assert whose.pop("notes.txt") == ((), False)
    assert sorted(whose.values()) == [(("kim",), False), (("kim",), True), (("lee",), False)]
    assert found.of_no_exercise() == {"kim": ("kim/homework.py",), "lee": ("lee.zip: homework.py",)}


def test_a_platforms_export_may_lie_in_a_folder_that_is_called_after_an_exercise(
    laid_out: LaidOut, reading: Reader
) -> None:
    for files, layout in ((GRADESCOPE, "gradescope"), (MOODLE, "moodle"), (CANVAS, "canvas")):
        inside = {f"5.1/{name}": text for name, text in files.items()}
        assert reading(laid_out(inside, layout)).layout == layout


def test_gradescope_says_who_is_who_and_when_and_what_came_before(either: LaidOut, reading: Reader) -> None:
    found = reading(either(GRADESCOPE))
    assert found.layout == "gradescope"
    assert found.students == (
        Student("0123", "Kim Roe", "kim@example.org", "0123"),
        Student("0777", "Ana Poe", "ana@example.org", "0777"),
        Student("lee@example.org", "Lee", "lee@example.org", ""),
    )
    assert [
        (one.student, one.exercise.partition("/")[2], one.submitted_at, one.attempt) for one in found.handed_in
    ] == [
        ("0123", "one_big_copy", "2026-04-26T10:00:00+00:00", 1),
        ("0123", "one_big_copy", "2026-04-26T17:34:00+00:00", 3),
        ("0777", "one_big_copy", "2026-04-26T10:00:00+00:00", 1),
        ("0777", "one_big_copy", "2026-04-26T17:34:00+00:00", 3),
        ("lee@example.org", "in_place", "2026-04-27T08:00:00+00:00", 1),
    ]
    assert sorted(reasons(found).values()) == [
        "submission_metadata.yml does not name it.",
        "submission_metadata.yml names no student for it.",
    ]


def test_moodle_knows_students_by_number_and_typed_text_is_not_graded(either: LaidOut, reading: Reader) -> None:
    found = reading(either(MOODLE))
    assert found.layout == "moodle"
    assert found.students == (
        Student("11", "Kim Roe", "", "11"),
        Student("12", "Kim Roe", "", "12"),
        Student("13", "Élodie d'Or", "", "13"),
    )
    assert facts(found) == [("11", "one_big_copy"), ("12", "find_the_gpu"), ("12", "one_big_copy"), ("13", "in_place")]
    assert sorted(reasons(found).values()) == [
        "It is text that was typed into Moodle, and no file: it cannot be graded.",
        "Its name is none that Moodle gives.",
    ]


def test_canvas_knows_students_by_number_what_is_late_and_what_came_first(either: LaidOut, reading: Reader) -> None:
    found = reading(either(CANVAS))
    assert found.layout == "canvas"
    assert [(one.student, one.exercise.partition("/")[2], one.attempt, one.late) for one in found.handed_in] == [
        ("21", "one_big_copy", 1, False),
        ("21", "one_big_copy", 2, False),
        ("22", "find_the_gpu", 1, True),
        ("22", "one_big_copy", 1, True),
        ("anon_x1Yz", "in_place", 1, True),
    ]
    assert {student.id: student.name for student in found.students} == {
        "21": "roekim", "22": "poeana", "23": "leejo", "anon_x1Yz": ""
    }  # fmt: skip
    assert list(reasons(found)) == [next(one.source for one in found.unmatched if "leejo" in one.source)]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "holds no Python files"),
        ({"notes.txt": "", "kim/essay.pdf": ""}, "holds no Python files"),
        ({"5.1/kim.py": A, "lee/5.1.py": A}, "such as in the layout `files`, and 'lee' as in `folders`"),
        (WORKSPACE, "looks like the files of one student"),
        ({"one.py": A, "two.py": A}, "is in no layout that is known"),
        (dict(list(CANVAS.items())[:1]) | {"a/5.1.py": A, "b/5.1.py": A}, "1 of 3 names are such as Canvas gives"),
        (
            {f"s{n}/{who}/5.1.py": A for n in (1, 2) for who in ("kim", "lee")},
            "'s1' may hold several students",
        ),
        ({"class.zip": zipped(CANVAS)}, "'class.zip' may hold several students"),
        (
            {"class.zip": zipped({"all/kim/5.1.py": A, "all/lee/5.1.py": A})},
            "'class.zip' may hold several students, or a whole class",
        ),
    ],
)
def test_what_is_not_clear_is_said_and_not_guessed(
    laid_out: LaidOut, reading: Reader, files: Mapping[str, Content], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        reading(laid_out(files))


def test_a_layout_that_is_named_is_taken(laid_out: LaidOut, reading: Reader) -> None:
    source = laid_out({"5.1/kim.py": A, "5.1/5.2.py": B})
    assert facts(reading(source, "folders")) == [("5.1", "in_place")]
    assert {student for student, _ in facts(reading(source, "files"))} == {"kim", "5.2"}
    with pytest.raises(UsageError, match=r"no layout called 'moodel'"):
        reading(source, "moodel")
    with pytest.raises(UsageError, match=r"has no submission_metadata\.yml"):
        reading(source, "gradescope")


def test_a_pack_names_its_student_and_its_exercises_and_one_of_another_course_is_not_graded(
    laid_out: LaidOut, reading: Reader
) -> None:
    manifest = '{"course": "%s", "student": "Kim\\u202e Roe", "exercises": {"b.py": "keep_the_data_moving/in_place"}}'
    source = laid_out(
        {
            "kim.zip": zipped({"gpututor-pack.json": manifest % "small", "5.1.py": A, "b.py": B}),
            "lee.zip": zipped({"gpututor-pack.json": manifest % "other", "5.1.py": A}),
            "ana.zip": zipped({"gpututor-pack.json": "[" * 60_000, "5.1.py": A}),
        }
    )
    found = reading(source)
    assert facts(found) == [("ana", "one_big_copy"), ("kim", "one_big_copy"), ("kim", "in_place")]
    assert found.students[1] == Student("kim", "Kim\\u202e Roe")
    assert reasons(found) == {"lee.zip: 5.1.py": "It was packed for the course 'other'."}


def test_the_folder_of_the_gradings_may_lie_in_the_class_and_is_never_read(laid_out: LaidOut, course: object) -> None:
    from gpututor.classroom.intake import read_class
    from gpututor.course.model import Course

    assert isinstance(course, Course)
    source = laid_out({"kim/5.1.py": A, "lee/5.1.py": B})
    out = ClassFolder(source / "gradings")
    first: Class = read_class(source, course, out)
    assert read_class(source, course, out) == first
    assert [student.id for student in first.students] == ["kim", "lee"]
    with pytest.raises(UsageError, match="is the folder of the gradings"):
        read_class(out.folder, course, out)


@pytest.mark.parametrize("place", ["", "submissions", "report/class"])
def test_what_is_handed_in_is_not_written_over(
    laid_out: LaidOut, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    """`gpututor classroom grade submissions --out .` would put its files among the students'."""
    from gpututor.cli.main import main

    out = laid_out({f"{place}/kim/5.1.py".lstrip("/"): A, f"{place}/lee/5.1.py".lstrip("/"): B})
    before = sorted(out.rglob("*"))
    assert main(["classroom", "grade", str(out / place), "--out", str(out)]) == 2
    assert "gradings" in capsys.readouterr().err
    assert sorted(out.rglob("*")) == before
