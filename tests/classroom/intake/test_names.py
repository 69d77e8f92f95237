"""Names of exercises, unique ids of students, and the summary of a class."""

from __future__ import annotations

import io
import os
import re
import string
import zipfile
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpututor.classroom import intake
from gpututor.classroom.folder import ClassFolder, folder_name
from gpututor.classroom.intake import read_class, summary
from gpututor.classroom.intake.gradescope_metadata import as_utc
from gpututor.classroom.intake.names import ExerciseNames, is_noise, normal_id, one_line, shown_source, unique_ids
from gpututor.classroom.submissions import Class
from gpututor.course.model import Course
from gpututor.errors import UsageError
from gpututor.json_dataclasses import read
from tests.support.class_layouts import zipped

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ODD = st.text(
    st.one_of(st.sampled_from("/\\.. \t\n\0~-_()Kk:51" + "\u202e\u200f\udc80\ud800ßéŁ日"), st.characters(codec=None)),
    max_size=90,
)


NAMED = (
    *("05_keep_the_data_moving/01_one_big_copy.py", "keep_the_data_moving/one_big_copy.py", "one_big_copy.py"),
    *("ONE-Big Copy.PY", "01_one_big_copy.py", "07_one_big_copy.py", "5.1.py", "5_1.py", "05-01.py"),
    *("5.1 one big copy.py", "5.1.one_big_copy.py", "05_keep_the_data_moving_01_one_big_copy.py"),
    *("one_big_copy (1).py", "one_big_copy(12).py", "one_big_copy-1.py", "one_big_copy - Copy.py"),
    *("one_big_copy - Copy (2).py", "one_big_copy copy 2.py", "5.1-2.py", "5.1 (1).py"),
    *("hand in/05_keep_the_data_moving/1.py", "5.1/solution.py", "5.1.zip/main.py"),
    "one_big_copy/deeper/submission (1).py",
)
SUGGESTED = (
    *("one_big_copy_2.py", "one_big_copy_v2.py", "one_big_copy2.py", "one_big_copy_final (1).py"),
    *("kim One-Big Copy.py", "one_big_copies.py", "one_big_cop.py", "one_big_copy_2/solution.py"),
    "5.2/one_big_copy_new.py",
)
NEITHER = (
    *("5.py", "51.py", "5.9.py", "main.py", "5.1/helper.py", "1.py", "01.py", "7/1.py", "²/1.py"),
    *("helper.py", "one.py", "big_copy.py", "solution.py", "_.py", "5_9.py"),
)


@pytest.mark.parametrize("path", [*NAMED, *SUGGESTED, *NEITHER])
def test_paths_name_an_exercise_or_resemble_one_which_is_suggested(course: Course, path: str) -> None:
    names = ExerciseNames(course)
    exercise, meant = names.at(path.split("/")), names.nearly(path.split("/"))
    assert (exercise is not None and exercise.slug == "one_big_copy") is (path in NAMED)
    if path not in NAMED:
        assert exercise is None
        assert (meant is not None and meant.slug == "one_big_copy") is (path in SUGGESTED)


@pytest.mark.parametrize(
    "wanted", [["kim", "Kim", "KIM ", "kim "], ["a/b", "a\\b", "a-b"], ["x" * 90, "x" * 91], ["", "..", "/"]]
)
def test_similar_names_get_different_ids(wanted: list[str]) -> None:
    ids = unique_ids((name, name) for name in wanted)
    assert len({normal_id(name) for name in ids.values()}) == len(wanted)
    assert unique_ids((name, name) for name in reversed(wanted)) == ids


def test_nobody_can_choose_the_generated_id_of_another() -> None:
    usual = unique_ids((name, name) for name in ("kim", "Kim"))
    people = ["kim", "Kim", usual["kim"], usual["Kim"].upper()]
    people.append(unique_ids((name, name) for name in people)[usual["kim"]])
    assert len({normal_id(name) for name in unique_ids((name, name) for name in people).values()}) == len(people)
    folder = folder_name("a b!")
    assert folder_name(folder.upper()).casefold() != folder.casefold()


@QUICK
@given(st.lists(ODD, unique=True, max_size=8))
def test_ids_are_unique_single_lines_and_no_paths(keys: list[str]) -> None:
    ids = unique_ids((key, key) for key in keys)
    assert len({normal_id(name) for name in ids.values()}) == len(keys)
    for name in ids.values():
        assert one_line(name) == name
        assert name.strip() == name
        assert not set(name) & {"/", "\\"}
        assert name not in ("", ".", "..")
        assert len(name.encode()) <= 400
    assert all(len(shown_source(key * 9)) <= 300 for key in keys)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@settings(QUICK, max_examples=40)
@given(st.lists(st.tuples(ODD, st.binary(max_size=20)), max_size=6), st.binary(max_size=30), st.integers(0, 2000))
def test_any_zip_loses_no_file_and_writes_nothing_elsewhere(
    course: Course, tmp_path_factory: pytest.TempPathFactory, files: list[tuple[str, bytes]], noise: bytes, at: int
) -> None:
    folder = tmp_path_factory.mktemp("zips", numbered=True)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files:
            info = zipfile.ZipInfo("x")
            info.filename = name.encode("utf-8", "replace").decode()
            archive.writestr(info, content)
    whole = bytearray(stream.getvalue())
    at = min(at, len(whole))
    whole[at : at + len(noise)] = noise
    (folder / "class").mkdir()
    (folder / "class" / "kim.zip").write_bytes(whole)
    (folder / "class" / "lee.zip").write_bytes(zipped({"5.1.py": "fine"}))
    out = ClassFolder(folder / "out")
    class_ = read_class(folder / "class", course, out)
    assert ("lee", "keep_the_data_moving/one_big_copy") in {
        (file.student, file.exercise) for file in class_.submissions
    }
    assert sorted(os.listdir(folder)) == ["class", "out"]
    assert read(Class, asdict(class_), "") == class_
    for line in summary(class_, course):
        assert one_line(line) == line
    for file in class_.submissions:
        assert file.refusal or out.submission(file.sha256).is_file()
    if not noise:
        names = [name.encode("utf-8", "replace").decode() for name, _ in files]
        expected = sum(
            not name.endswith(("/", "\\"))
            and not any(is_noise(part, folder=False) for part in re.split(r"[/\\]", name))
            for name in names
        )
        assert len(class_.submissions) - 1 + len(class_.unmatched) >= expected


@QUICK
@given(st.text(string.digits + "-:TZ. +", max_size=30))
def test_any_text_is_a_time_or_empty(text: str) -> None:
    assert as_utc(text) == "" or as_utc(as_utc(text)) == as_utc(text)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-04-26 17:34:00.861687000 Z", "2026-04-26T17:34:00+00:00"),
        ("2026-04-26 17:34:00 -07:00", "2026-04-27T00:34:00+00:00"),
        ("2026-04-26T17:34:00.1+02:00", "2026-04-26T15:34:00+00:00"),
        ("2026-04-26 17:34:00 UTC", "2026-04-26T17:34:00+00:00"),
        ("2026-04-26 17:34:00", ""),
        ("0001-01-01 00:00:00 +02:00", ""),
    ],
)
def test_times_are_in_utc(text: str, time: str) -> None:
    assert as_utc(text) == time


def test_the_summary_counts_and_shortens(course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MOST_LISTED", 3)
    source = tmp_path / "class"
    for student in ("kim", "lee", "ana"):
        (source / student).mkdir(parents=True)
        (source / student / "5.1.py").write_text("a = 1\n" if student != "ana" else "a = '\0'\n")
    (source / "kim" / "5.1 (1).py").write_text("a = 2\n")
    (source / "kim" / "1.1.py").write_text("a = 2\n")
    (source / "kim" / ".DS_Store").write_text("")
    for number in range(4):
        (source / "lee" / f"{number}.txt").write_text("")
    class_ = read_class(source, course, ClassFolder(tmp_path / "out"))
    head, *lines = (line.strip() for line in summary(class_, course))
    assert re.findall(r"`folders`|\d+", head) == ["`folders`", "3", "5", "2"]
    assert [re.findall(r"\w+", line)[2:] for line in lines[:2]] == [
        ["find_the_gpu", "1", "student"],
        ["one_big_copy", "3", "students", "4", "files", "1", "rejected"],
    ]
    starts = ["1 student ", "ana", "1 file rejected:", "ana/5.1.py: ", "4 files "]
    starts += ["lee/0.txt: ", "lee/1.txt: ", "lee/2.txt: ", "… and 1 more: class.json", "1 file "]
    assert [line.startswith(start) for line, start in zip(lines[2:], starts, strict=True)] == [True] * len(starts)


def test_an_empty_class_fails_and_a_misspelled_file_gets_a_suggestion(course: Course, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contains no Python files"):
        read_class(tmp_path, course, ClassFolder(tmp_path / "out"))
    (tmp_path / "in" / "kim").mkdir(parents=True)
    for name in ("one_big_copy_2.py", "in_place.py", "helper.py"):
        (tmp_path / "in" / "kim" / name).write_text("a = 1\n")
    class_ = read_class(tmp_path / "in", course, ClassFolder(tmp_path / "out"))
    assert [file.exercise for file in class_.submissions] == ["keep_the_data_moving/in_place"]
    assert ["one_big_copy.py" in file.why for file in sorted(class_.unmatched, key=lambda file: file.source)] == [
        False,
        True,
    ]
