"""Each layout is detected, and gives the owner of each file."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake import summary
from gpututor.classroom.submissions import Class, Student
from gpututor.course.model import Course
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
    """Return the class as one zip with a wrapper folder, as platforms make it."""
    whole = folder.with_name("export.zip")
    with zipfile.ZipFile(whole, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, f"export_1/{path.relative_to(folder)}")
    return whole


@pytest.fixture(params=["a folder", "a zip"])
def either(request: pytest.FixtureRequest, laid_out: LaidOut) -> LaidOut:
    """Make the class as a folder, or as a zip."""
    if request.param == "a folder":
        return laid_out
    return lambda files: as_zip(laid_out(files))


def test_a_students_folder_or_zip_may_be_a_workspace_at_any_depth(either: LaidOut, reading: Reader) -> None:
    source = either(
        {f"kim/hand in/{path}": text for path, text in WORKSPACE.items()}
        | {"ana.zip": zipped(WORKSPACE), "Lee/5.2 (1).PY": A, "lee/one_big_copy/solution.py": A, "notes.txt": ""}
    )
    class_ = reading(source)
    assert class_.layout == "folders"
    lower, upper = (student.id for student in class_.students if student.id.casefold().startswith("lee"))
    assert lower.casefold() != upper.casefold()
    assert {student for student, _ in facts(class_)} == {"ana", "kim", lower, upper}
    assert facts(class_)[:4] == [
        (student, name) for student in ("ana", "kim") for name in ("find_the_gpu", "one_big_copy")
    ]
    assert [source.rpartition("/")[2] for source in reasons(class_)] == ["notes.txt"]
    assert class_.ignored == 6


def test_equal_texts_are_stored_once(laid_out: LaidOut, reading: Reader, kept: ClassFolder) -> None:
    content = "a = 'é'\r\n".encode()
    class_ = reading(laid_out({"kim/5.1.py": content, "ana/5.1.py": b"\xef\xbb\xbf" + content, "lee/5.2.py": b"#"}))
    file, other, short = (kept.submission(file.sha256) for file in class_.submissions)
    assert file == other
    assert file.read_bytes() == content
    assert short.read_bytes() == b"#"
    file.write_bytes(b"spoilt in a power cut")
    file.with_name(f".x.{2**22 + 1}-a.part").write_bytes(b"of a reader that was killed")
    reading(laid_out({}))
    assert file.read_bytes() == content
    assert sorted(path for path in kept.folder.rglob("*") if path.is_file()) == sorted({file, short})
    kept.write_class(class_)
    assert kept.read_class() == class_


COPY, IN_PLACE = "one_big_copy", "in_place"
KIM_AND_LEE = [("kim", COPY), ("lee", COPY)]
PACK = zipped({"5.1.py": A, "gpututor-pack.json": "{}"})


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"5.1/kim.py": A, "in_place/kim.py": B, "5.1/kim (1).py": A, "1.1/lee/main.py": A},
            [("kim", COPY), ("kim", IN_PLACE), ("kim (1)", COPY), ("lee", "find_the_gpu")],
        ),
        ({f"05_keep_the_data_moving/01_one_big_copy/{name}.py": A for name in ("kim", "lee")}, KIM_AND_LEE),
        ({"kim__5_1.py": A, "a__b__01_one_big_copy-1.py": B, "kim__6_6.py": A}, [("a__b", COPY), ("kim", COPY)]),
    ],
)
def test_files_are_named_after_exercise_and_student(
    either: LaidOut, reading: Reader, files: Mapping[str, Content], expected: object
) -> None:
    class_ = reading(either(files))
    assert (class_.layout, facts(class_)) == ("files", expected)
    assert [source for source in reasons(class_) if "6_6" not in source] == []


@pytest.mark.parametrize(
    ("files", "is_zip", "layout", "exercise", "expected"),
    [
        ({"kim.py": A, "lee.py": B}, False, "auto", "5.1", KIM_AND_LEE),
        # The folder of the only student is no wrapper.
        ({"kim/work.py": A}, False, "auto", "5.1", [("kim", COPY)]),
        ({"kim/work.py": A}, True, "folders", "5.1", [("kim", COPY)]),
        ({"work.py": A}, True, "auto", "5.1", [("work", COPY)]),
        # A folder with a single zip is the student.
        ({"kim/gpututor-pack.zip": PACK}, False, "auto", "", [("kim", COPY)]),
        ({"kim.zip": PACK}, True, "auto", "", [("kim", COPY)]),
        ({"kim.zip": PACK}, False, "auto", "", [("kim", COPY)]),
        # A folder around several students is a wrapper.
        ({"all/kim.zip": PACK, "all/lee.zip": PACK}, False, "auto", "", KIM_AND_LEE),
        ({"all/kim/pack.zip": PACK, "all/lee/pack.zip": PACK}, False, "auto", "", KIM_AND_LEE),
    ],
)
def test_wrapper_folders_are_no_students(
    laid_out: LaidOut,
    reading: Reader,
    files: Mapping[str, Content],
    is_zip: bool,
    layout: str,
    exercise: str,
    expected: object,
) -> None:
    source = laid_out(files)
    assert facts(reading(as_zip(source) if is_zip else source, layout, exercise=exercise)) == expected


@pytest.mark.parametrize("files", [GRADESCOPE, MOODLE, CANVAS, {"kim/5.1.py": A, "lee/5.1.py": A}])
def test_two_wrapper_folders_need_a_layout(laid_out: LaidOut, reading: Reader, files: Mapping[str, Content]) -> None:
    with pytest.raises(UsageError, match="may contain several students") as refusal:
        reading(laid_out({f"all/export/{name}": text for name, text in files.items()}))
    assert "--layout folders" in refusal.value.advice


def test_the_file_named_after_the_exercise_counts(laid_out: LaidOut, reading: Reader) -> None:
    source = laid_out(
        {
            **dict.fromkeys(("kim/work.py", "ana/one_big_copy.py", "lee/solution.py", "joe/x.py", "eve/mine.py"), A),
            **dict.fromkeys(("ana/helper.py", "lee/helper.py", "joe/y.py", "eve/mine (1).py"), B),
            **dict.fromkeys(("lee/more.zip", "tim/all.zip"), "no zip"),
            "eve/in_place.py": A,
        }
    )
    class_ = reading(source, exercise="5.1")
    assert [(file.source, file.attempt) for file in class_.submissions] == [
        ("ana/one_big_copy.py", 1),
        ("eve/mine.py", 1),
        ("eve/mine (1).py", 2),
        ("kim/work.py", 1),
        ("lee/solution.py", 1),
        ("tim/all.zip", 1),
    ]
    assert {file.source for file in class_.unmatched} == {
        *("ana/helper.py", "lee/helper.py", "lee/more.zip", "joe/x.py", "joe/y.py", "eve/in_place.py")
    }


def test_notebooks_count_and_the_layout_option_overrides(laid_out: LaidOut, reading: Reader, kept: ClassFolder) -> None:
    cells = [{"cell_type": "code", "source": "%time\nimport os", "metadata": {}}]
    cells += [{"cell_type": "code", "source": f"def f():\n    return {value}", "metadata": {}} for value in (1, 2)]
    valid, without = json.dumps({"cells": cells}), json.dumps({"cells": cells[:1]})
    files: dict[str, dict[str, Content]] = {
        "folders": {"kim/one_big_copy.ipynb": valid, "lee/5.1.ipynb": without, "max/05.01.IPYNB": "{"},
        "files": {"kim__one_big_copy.ipynb": valid, "one_big_copy/lee.ipynb": without, "max__5.1.ipynb": "{"},
        "canvas": {"kim_1_2_one_big_copy.ipynb": valid, "lee_2_3_5.1.ipynb": without, "max_3_4_5.1.ipynb": "{"},
    }
    for layout, of_layout in files.items():
        class_ = reading(laid_out(of_layout, layout))
        assert class_.layout == layout
        kim, lee, max_ = class_.submissions
        program = kept.read_submission(kim.sha256) or ""
        assert program.startswith("# From a notebook: code cells 2, 3.\n")
        assert (kim.refusal, "f()" in lee.refusal, "line 1" in max_.refusal) == ("", True, True)
    source = laid_out({"5.1/kim.py": A, "5.1/5.2.py": B})
    assert facts(reading(source, "folders")) == [("5.1", "in_place")]
    assert {student for student, _ in facts(reading(source, "files"))} == {"kim", "5.2"}
    with pytest.raises(UsageError, match=r"no layout called 'moodel'"):
        reading(source, "moodel")
    with pytest.raises(UsageError, match=r"has no submission_metadata\.yml"):
        reading(source, "gradescope")


def test_the_summary_names_left_out_lines_of_notebooks_only(laid_out: LaidOut, reading: Reader, course: Course) -> None:
    code = ["import os\n%time\ndef f():\n    return os", "def f():\n    return 1"]
    texts = [
        json.dumps({"cells": [{"cell_type": "code", "source": text, "metadata": {"tags": ["gpututor"]}}]})
        for text in code
    ]
    class_ = reading(laid_out({"kim/one_big_copy.ipynb": texts[0], "lee/one_big_copy.ipynb": texts[1]}))
    assert [file.left_out for file in class_.submissions] == [("code cell 1, line 2: %time",), ()]
    lines = summary(class_, course)
    place = lines.index("1 notebook with lines that are not part of the program:")
    assert lines[place + 1] == "  kim/one_big_copy.ipynb: code cell 1, line 2: %time"


def test_files_of_no_exercise_keep_their_students(laid_out: LaidOut, reading: Reader) -> None:
    packed = zipped({"homework.py": A, "in_place.py": A})
    files = {
        "kim/homework.py": A,
        "kim/in_place.py": A,
        "kim/again/in_place.py": A,
        "lee.zip": packed,
        "notes.txt": "n",
    }
    class_ = reading(laid_out(files), layout="folders")
    whose = {file.source: (file.students, bool(file.exercise)) for file in class_.unmatched}
    assert whose.pop("notes.txt") == ((), False)
    assert sorted(whose.values()) == [(("kim",), False), (("kim",), True), (("lee",), False)]
    assert class_.of_no_exercise() == {"kim": ("kim/homework.py",), "lee": ("lee.zip: homework.py",)}


def test_wrappers_named_like_exercises_and_other_courses_are_recognized(laid_out: LaidOut, reading: Reader) -> None:
    for files, layout in ((GRADESCOPE, "gradescope"), (MOODLE, "moodle"), (CANVAS, "canvas")):
        inside = {f"5.1/{name}": text for name, text in files.items()}
        assert reading(laid_out(inside, layout)).layout == layout
    with pytest.raises(UsageError) as raised:
        reading(laid_out({"s1__masked_attention.py": A, "s2__masked_attention.py": A}))
    assert "'s1__masked_attention.py'" in raised.value.title
    assert "--course DIR" in raised.value.advice


def test_gradescope_gives_students_times_and_earlier_attempts(either: LaidOut, reading: Reader) -> None:
    class_ = reading(either(GRADESCOPE))
    assert class_.layout == "gradescope"
    assert class_.ignored == 0
    assert class_.students == (
        Student("0123", "Kim Roe", "kim@example.org", "0123"),
        Student("0777", "Ana Poe", "ana@example.org", "0777"),
        Student("lee@example.org", "Lee", "lee@example.org", ""),
    )
    assert [
        (file.student, file.exercise.partition("/")[2], file.submitted_at, file.attempt) for file in class_.submissions
    ] == [
        ("0123", "one_big_copy", "2026-04-26T10:00:00+00:00", 2),
        ("0123", "one_big_copy", "2026-04-26T17:34:00+00:00", 3),
        ("0777", "one_big_copy", "2026-04-26T10:00:00+00:00", 2),
        ("0777", "one_big_copy", "2026-04-26T17:34:00+00:00", 3),
        ("lee@example.org", "in_place", "2026-04-27T08:00:00+00:00", 1),
    ]
    assert len(reasons(class_)) == 2
    assert all("submission_metadata.yml" in why for why in reasons(class_).values())


def test_moodle_identifies_students_by_number(either: LaidOut, reading: Reader) -> None:
    class_ = reading(either(MOODLE))
    assert class_.layout == "moodle"
    assert class_.students == (
        Student("11", "Kim Roe", "", "11", "Kim Roe_11_assignsubmission_file_"),
        Student("12", "Kim Roe", "", "12", "Kim Roe_12_assignsubmission_file"),
        Student("13", "Élodie d'Or", "", "13", "Élodie d'Or_13_assignsubmission_file_"),
    )
    assert facts(class_) == [("11", "one_big_copy"), ("12", "find_the_gpu"), ("12", "one_big_copy"), ("13", "in_place")]
    typed, named = sorted(reasons(class_).values())
    assert "typed into Moodle" in typed
    assert "names" in named


def test_canvas_identifies_students_and_late_uploads_in_order(either: LaidOut, reading: Reader) -> None:
    class_ = reading(either(CANVAS))
    assert class_.layout == "canvas"
    assert [
        (file.student, file.exercise.partition("/")[2], file.attempt, file.late) for file in class_.submissions
    ] == [
        ("21", "one_big_copy", 1, False),
        ("21", "one_big_copy", 2, False),
        ("22", "find_the_gpu", 1, True),
        ("22", "one_big_copy", 1, True),
        ("anon_x1Yz", "in_place", 1, True),
    ]
    assert {student.id: student.name for student in class_.students} == {
        "21": "roekim", "22": "poeana", "23": "leejo", "anon_x1Yz": ""
    }  # fmt: skip
    assert list(reasons(class_)) == [next(file.source for file in class_.unmatched if "leejo" in file.source)]
    assert [student.platform_id for student in class_.students] == ["21", "22", "23", ""]
    assert [student.upload for student in class_.students] == [
        "roekim_21_902_one_big_copy-1.py", "poeana_LATE_22_903_homework-2.zip", "", "LATE_anon_x1Yz_904_5_2.py"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "contains no Python files"),
        ({"notes.txt": "", "kim/essay.pdf": ""}, "contains no Python files"),
        ({"5.1/kim.py": A, "lee/5.1.py": A}, "'lee' like `folders`"),
        (WORKSPACE, "files of one student"),
        ({"one.py": A, "two.py": A}, "has no known layout"),
        (dict(list(CANVAS.items())[:1]) | {"a/5.1.py": A, "b/5.1.py": A}, "1 of 3 names"),
        ({f"s{n}/{who}/5.1.py": A for n in (1, 2) for who in ("kim", "lee")}, "'s1' may contain several students"),
        ({"class.zip": zipped(CANVAS)}, "'class.zip' may contain several students"),
        ({"class.zip": zipped({"all/kim/5.1.py": A, "all/lee/5.1.py": A})}, "'class.zip' may contain"),
    ],
)
def test_an_unclear_layout_is_a_usage_error(
    laid_out: LaidOut, reading: Reader, files: Mapping[str, Content], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        reading(laid_out(files))


def test_a_pack_names_its_course_student_and_exercises(laid_out: LaidOut, reading: Reader) -> None:
    manifest = '{"course": "%s", "student": "Kim\\u202e Roe", "exercises": {"b.py": "keep_the_data_moving/in_place"}}'
    source = laid_out(
        {
            "kim.zip": zipped({"gpututor-pack.json": manifest % "small", "5.1.py": A, "b.py": B}),
            "lee.zip": zipped({"gpututor-pack.json": manifest % "other", "5.1.py": A}),
            "ana.zip": zipped({"gpututor-pack.json": "[" * 60_000, "5.1.py": A}),
        }
    )
    class_ = reading(source)
    assert facts(class_) == [("ana", "one_big_copy"), ("kim", "one_big_copy"), ("kim", "in_place")]
    assert class_.students[1] == Student("kim", "Kim\\u202e Roe")
    ((refused, why),) = reasons(class_).items()
    assert refused == "lee.zip: 5.1.py"
    assert "'other'" in why


def test_the_output_folder_in_the_class_is_not_read(laid_out: LaidOut, course: object) -> None:
    from gpututor.classroom.intake import read_class
    from gpututor.course.model import Course

    assert isinstance(course, Course)
    source = laid_out({"kim/5.1.py": A, "lee/5.1.py": B})
    out = ClassFolder(source / "gradings")
    first: Class = read_class(source, course, out)
    assert read_class(source, course, out) == first
    assert [student.id for student in first.students] == ["kim", "lee"]
    with pytest.raises(UsageError, match="folder of the gradings"):
        read_class(out.folder, course, out)


@pytest.mark.parametrize("place", ["", "submissions", "report/class"])
def test_submissions_are_not_overwritten(laid_out: LaidOut, capsys: pytest.CaptureFixture[str], place: str) -> None:
    """`gpututor classroom grade submissions --out .` would mix its files with the students'."""
    from gpututor.cli.main import main

    out = laid_out({f"{place}/kim/5.1.py".lstrip("/"): A, f"{place}/lee/5.1.py".lstrip("/"): B})
    before = sorted(out.rglob("*"))
    assert main(["classroom", "grade", str(out / place), "--out", str(out)]) == 2
    assert "gradings" in capsys.readouterr().err
    assert sorted(out.rglob("*")) == before


def test_all_files_of_a_late_submission_count_the_earlier_ones(laid_out: LaidOut, reading: Reader) -> None:
    history = "".join(f"  - :id: {number}\n    :created_at: 2026-04-2{number} 10:00:00 Z\n" for number in (1, 2))
    submitter = "  :submitters:\n  - :name: Kim\n    :email: kim@example.org\n"
    metadata = f"submission_3:\n{submitter}  :created_at: 2026-04-25 10:00:00 Z\n  :history:\n{history}"
    files: dict[str, Content] = {
        "submission_metadata.yml": metadata,
        "submission_3/one_big_copy.py": A,
        "submission_3/one_big_copy (1).py": B,
    }
    assert [file.attempt for file in reading(laid_out(files)).submissions] == [3, 4]
