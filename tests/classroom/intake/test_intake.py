"""Rejected files and the leftovers of tools; nothing is read through a link or written elsewhere."""

from __future__ import annotations

import os
import socket
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake import archive as in_zips
from gpututor.classroom.intake import collect, summary
from gpututor.course.model import Course
from gpututor.errors import UsageError
from tests.support.class_layouts import Content, Reader, facts, lay_out, phrases, reasons, zipped

LaidOut = Callable[..., Path]
A = "a = 1\n"
LINK = "is a link"
BROKEN = "not a valid zip"
OUT_OF_ZIP = "out of the zip"


def entry(name: str, mode: int = 0o100644, flags: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.create_system = 3
    info.flag_bits = flags
    return info


def refused(reading: Reader, source: Path) -> dict[str, str]:
    """Return the refusal of each refused file."""
    return {file.source: file.refusal for file in reading(source).submissions if file.refusal}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"#" * ((1 << 20) + 1), "over 1 MiB"),
        (b"a = 1\nb = '\xe9'\n", "byte 12, in line 2,"),
        ("a = 1\n".encode("utf-16"), "is UTF-16"),
        ("a = 1\n".encode("utf-32"), "is UTF-32"),
        (b"a = 1\n\0", "is byte 7"),
        (b"\xed\xa0\x80", "byte 1, in line 1,"),
        (b"", "is empty"),
        (b"\xef\xbb\xbf \n", "is empty"),
    ],
)
@pytest.mark.parametrize("is_zip", [False, True])
def test_content_that_is_no_program_is_refused(
    laid_out: LaidOut, reading: Reader, kept: ClassFolder, content: bytes, why: str, is_zip: bool
) -> None:
    files: dict[str, Content] = {"lee.zip": zipped({"5.1.py": content})} if is_zip else {"lee/5.1.py": content}
    (refusal,) = refused(reading, laid_out(files)).values()
    assert why in refusal
    assert not list(kept.folder.iterdir())


def test_links_pipes_and_sockets_are_not_opened(laid_out: LaidOut, reading: Reader) -> None:
    source = laid_out({"kim/5.2.py": A})
    secret = source.parent / "secret"
    secret.mkdir()
    (secret / "5.1.py").write_text("secret")
    (source / "kim" / "5.1.py").symlink_to(secret / "5.1.py")
    (source / "kim" / "more").symlink_to(secret, target_is_directory=True)
    (source / "kim" / "1.1.py").symlink_to("1.1.py")
    (source / "lee").symlink_to(secret, target_is_directory=True)
    (source / "lee.zip").symlink_to(secret / "no.zip")
    (source / "ana").mkdir()
    os.mkfifo(source / "ana" / "5.1.py")
    os.mkfifo(source / "ana" / "5.1.zip")
    with socket.socket(socket.AF_UNIX) as file:
        here = os.getcwd()
        os.chdir(source / "ana")  # names of sockets are short
        try:
            file.bind("5.2.py")
        finally:
            os.chdir(here)
        class_ = reading(source)
    whys = dict.fromkeys(("kim/1.1.py", "kim/5.1.py", "kim/more", "lee", "lee.zip"), LINK)
    whys |= {"ana/5.1.py": "is a pipe", "ana/5.1.zip": "is a pipe", "ana/5.2.py": "is a socket"}
    assert phrases(reasons(class_), whys) == whys
    assert [student.id for student in class_.students] == ["ana", "kim", "lee"]
    assert not any(file.sha256 for file in class_.submissions if file.refusal)


def test_a_file_that_becomes_a_link_is_not_followed(
    laid_out: LaidOut, reading: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = laid_out({"kim/5.1.py": A, "kim/5.2.py": A})
    (source / "secret.py").write_text("secret")
    look = os.stat

    def swap(path: object, *rest: object, **more: object) -> os.stat_result:
        status = look(path, *rest, **more)  # type: ignore[arg-type]
        if path == "5.1.py":
            (source / "kim" / "5.1.py").unlink()
            (source / "kim" / "5.1.py").symlink_to(source / "secret.py")
        return status

    monkeypatch.setattr(os, "stat", swap)
    ((refused_file, why),) = refused(reading, source).items()
    assert refused_file == "kim/5.1.py"
    assert LINK in why


def test_an_unreadable_folder_affects_no_other_student(
    laid_out: LaidOut, reading: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = laid_out({"kim/5.1.py": A, "shut/5.1.py": A, "/".join(["lee", *"d" * 40, "5.1.py"]): A})
    look = os.open

    def refuse(path: object, *rest: object, **more: object) -> int:
        if path == "shut":
            raise PermissionError(13, "Permission denied")
        return look(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    class_ = reading(source)
    assert facts(class_) == [("kim", "one_big_copy")]
    assert [student.id for student in class_.students] == ["kim", "lee", "shut"]
    shut, deep = sorted(reasons(class_).values())
    assert "permission denied" in shut
    assert "more than 32 folders" in deep


def test_paths_out_of_a_zip_and_special_files_are_refused(
    laid_out: LaidOut, reading: Reader, kept: ClassFolder
) -> None:
    whys = {
        entry("../../05_keep_the_data_moving/01_one_big_copy.py"): OUT_OF_ZIP,
        entry("/etc/5.1.py"): OUT_OF_ZIP,
        entry("C:\\x\\5.1.py"): OUT_OF_ZIP,
        entry("..\\in_place.py"): OUT_OF_ZIP,
        entry("a/link/5.1.py", 0o120777): LINK,
        entry("a/pipe/5.1.py", 0o010644): "is a pipe",
        entry("a/disk/5.1.py", 0o060644): "or a device",
    }
    source = laid_out({"kim.zip": zipped({**dict.fromkeys(whys, "/etc/passwd"), "in_place.py": A}), "lee/5.1.py": A})
    before = {path for path in source.parent.rglob("*") if kept.folder not in path.parents}
    by_source = {f"kim.zip: {info.filename}": why for info, why in whys.items()}
    assert phrases(refused(reading, source), by_source) == by_source
    assert {path for path in source.parent.rglob("*") if kept.folder not in path.parents} - {kept.folder} == before


def encrypted(content: bytes) -> bytes:
    """Return the zip with the encryption flags of its entries set."""
    changed = bytearray(content)
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := content.find(mark, start + 1)) >= 0:
            changed[start + at] |= 1
    return bytes(changed)


def test_encrypted_broken_and_unusual_zips_are_refused(laid_out: LaidOut, reading: Reader) -> None:
    whole = zipped({"5.1.py": A * 100, "in_place.py": A})
    broken = bytearray(whole)
    broken[40:48] = b"\xff" * 8
    strange = Path(laid_out({})) / "lzma.zip"
    with zipfile.ZipFile(strange, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("5.1.py", A)
    class_ = reading(
        laid_out(
            {
                "locked.zip": encrypted(zipped({"5.1.py": A})),
                "cut.zip": whole[:-30],
                "text.zip": b"no zip",
                "empty.zip": b"",
                "damaged.zip": bytes(broken),
                "ana/5.1.zip": b"PK\x05\x06",
                "kim.rar": b"Rar!",
            }
        )
    )
    whys = dict.fromkeys(("ana/5.1.zip", "cut.zip", "empty.zip", "text.zip"), BROKEN) | {
        "damaged.zip: 5.1.py": "broken in the zip",
        "locked.zip: 5.1.py": "is encrypted",
        "lzma.zip: 5.1.py": "an ordinary zip",
        "kim.rar": "no student's folder",
    }
    assert phrases(reasons(class_), whys) == whys
    assert {"cut", "empty", "text", "locked"} <= {student.id for student in class_.students}
    assert ("ana", "one_big_copy") in facts(class_)
    assert [file.source for file in class_.submissions if not file.refusal] == ["damaged.zip: in_place.py"]


def test_zip_bombs_are_refused(laid_out: LaidOut, reading: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_zips, "MOST_ENTRIES", 20)
    monkeypatch.setattr(in_zips, "MOST_BYTES", 9 << 20)
    monkeypatch.setattr(in_zips, "LARGEST_ZIP", 1000)
    nested = zipped({"5.1.py": A})
    for _ in range(4):
        nested = zipped({"deeper.zip": nested})
    class_ = reading(
        laid_out(
            {
                "ratio.zip": zipped({"zeros": bytes((8 << 20) + 1), "5.1.py": A}),
                "size.zip": zipped({"zeros": bytes(10 << 20), "5.1.py": A}),
                "number.zip": zipped({f"{number}.py": A for number in range(21)}),
                "depth.zip": nested,
                "inner.zip": zipped({"large.zip": os.urandom(1001), "small.zip": zipped({"5.1.py": A})}),
            }
        )
    )
    whys = {
        "ratio.zip": "200 times",
        "size.zip": "over 9 MiB",
        "number.zip": "21 files; at most 20",
        "depth.zip: deeper.zip: deeper.zip: deeper.zip": "a zip inside three other zips",
        "inner.zip: large.zip": "is larger than",
    }
    assert phrases(reasons(class_), whys) == whys
    assert facts(class_) == [("inner", "one_big_copy")]


def test_a_huge_zip_directory_and_a_wrong_size_are_refused(laid_out: LaidOut, reading: Reader) -> None:
    content = bytearray(zipped({"5.1.py": A}) + bytes(64))
    end = content.rfind(b"PK\x05\x06")
    content[end + 12 : end + 16] = struct.pack("<I", (4 << 20) + 1)
    class_ = reading(laid_out({"kim.zip": bytes(9 << 20) + bytes(content[: end + 22]), "lee/5.1.py": A}))
    ((source, why),) = reasons(class_).items()
    assert source == "kim.zip"
    assert "directory" in why
    content = bytearray(zipped({"5.1.py": b"#" * (3 << 20)}))
    for mark, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = content.find(mark)
        content[start + at : start + at + 4] = struct.pack("<I", 100)
    (why,) = refused(reading, laid_out({"kim.zip": bytes(content)})).values()
    assert "broken in the zip" in why


def test_unprintable_names_are_refused_and_escaped(laid_out: LaidOut, reading: Reader) -> None:
    turned, steering = "5.1\u202e.py", "in_place\x1b.py"
    source = laid_out({f"kim/{turned}": A, f"kim/{steering}": A, "\u200fאבי/5.1.py": A, "l\nee/5.1.py": A})
    os.mkdir(os.fsencode(source) + b"/jos\xe9")
    with open(os.fsencode(source) + b"/jos\xe9/5.1.py", "w") as stream:
        stream.write(A)
    os.mkdir(os.fsencode(source) + b"/jos\xe9/\xff")
    with open(os.fsencode(source) + b"/jos\xe9/\xff/in_place.py", "w") as stream:
        stream.write(A)
    class_ = reading(source)
    whys = dict.fromkeys(("kim/5.1\\u202e.py", "kim/in_place\\x1b.py"), "control characters")
    whys |= {"jos\\udce9/\\udcff/in_place.py": "not UTF-8"}
    assert phrases(reasons(class_), whys) == whys
    assert {file.student for file in class_.submissions if not file.refusal} == {"jos-udce9", "-u200fאבי", "l-nee"}


def test_names_in_zips_are_decoded_or_refused(laid_out: LaidOut, reading: Reader) -> None:
    long = "x" * 300
    content = zipped({"1_.py": A, f"{long}/5.1.py": A, "5.2Z.py": A}).replace(b"5.2Z.py", b"5.2\0.py")
    umlaut = zipped({"m?ller/5.1.py": A}).replace(b"m?ller", b"m\x81ller")
    mac = zipped({"m??ller/5.1.py": A}).replace(b"m??ller", "müller".encode())
    class_ = reading(laid_out({"kim.zip": content, "lee.zip": umlaut, "mac.zip": mac}))
    assert [file.source for file in class_.submissions if not file.refusal] == [
        "lee.zip: müller/5.1.py",
        "mac.zip: müller/5.1.py",
    ]
    zero, long_name = sorted(file.refusal for file in class_.submissions if file.refusal)
    assert "zero byte" in zero
    assert "255 bytes" in long_name
    assert max(len(file.source) for file in class_.submissions) <= 300


def test_different_texts_are_attempts_of_which_ten_count_with_their_numbers(laid_out: LaidOut, reading: Reader) -> None:
    content = zipped({"5.1.py": "1", "5.1.PY": "2", "one_big_copy (2).py": "3", "x/5_1.py": "1"})
    class_ = reading(laid_out({"kim.zip": content, "lee/5.1.py": A}))
    assert [(file.source, file.attempt) for file in class_.submissions if file.student == "kim"] == [
        ("kim.zip: 5.1.PY", 1),
        ("kim.zip: 5.1.py", 2),
        ("kim.zip: one_big_copy (2).py", 3),
    ]
    ((source, why),) = reasons(class_).items()
    assert source == "kim.zip: x/5_1.py"
    assert "kim.zip: 5.1.py" in why
    again = zipped({"5.1.py": "1", "5.1 (1).py": "2", "5.1 (2).py": "1", "5.1 (3).py": "1"})
    class_ = reading(laid_out({"kim.zip": again, "lee/5.1.py": A}))
    sources = [file.source for file in class_.submissions if file.student == "kim"]
    assert sources == ["kim.zip: 5.1.py", "kim.zip: 5.1 (1).py", "kim.zip: 5.1 (2).py"]
    many = {f"5.1 ({number}).py": f"{A}#{number}" for number in range(1, 31)}
    class_ = reading(laid_out({"kim.zip": zipped(many), "lee/5.1.py": A}))
    kim = [(file.source, file.attempt) for file in class_.submissions if file.student == "kim"]
    assert kim == [(f"kim.zip: 5.1 ({number}).py", number) for number in (*range(1, 10), 30)]
    assert set(reasons(class_)) == {f"kim.zip: 5.1 ({number}).py" for number in range(10, 30)}
    assert all("first 9" in why for why in reasons(class_).values())


def test_tests_and_the_courses_files_are_no_attempts_beside_real_ones(laid_out: LaidOut, reading: Reader) -> None:
    beside = {
        "tests/one_big_copy.py": "2",
        "course/05_keep_the_data_moving/01_one_big_copy/starter.py": "3",
        "old/01_one_big_copy/solution.py": "4",
    }
    files = {"kim/05_keep_the_data_moving/01_one_big_copy.py": "1", "lee/tests/one_big_copy.py": "2"}
    files |= {"ana/one_big_copy/solution.py": "1", "ana/5.1.py": "2", "zoe/01_one_big_copy/solution.py": "1"}
    source = laid_out({**files, **{f"kim/{name}": text for name, text in beside.items()}})
    for path in source.rglob("*.py"):
        os.utime(path, (1e9, 1e9))
    class_ = reading(source)
    assert {file.source for file in class_.submissions} == set(files)
    assert {file.source for file in class_.unmatched} == {f"kim/{name}" for name in beside}
    source = laid_out({"kim/01_one_big_copy/solution.py": "1", "kim/helper.py": "2", "lee/work.py": "3"}, "other")
    lay_out(source, {"lee/tests/test_work.py": "4"})
    class_ = reading(source, "folders", "5.1")
    assert {file.source for file in class_.submissions} == {"kim/01_one_big_copy/solution.py", "lee/work.py"}


def test_files_and_bytes_of_a_student_are_limited(
    laid_out: LaidOut, reading: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "MOST_FILES", 5)
    monkeypatch.setattr(collect, "MOST_BYTES", 1 << 20)
    many = {f"{number}/5.1.py": str(number) for number in range(6)}
    large = {f"{number}/5.1.py": f"#{number}" * (150 << 10) for number in range(5)}
    class_ = reading(laid_out({"kim.zip": zipped(many), "lee.zip": zipped(large)}))
    kims, lees = (file.refusal for file in class_.submissions if file.refusal)
    assert "5 files" in kims
    assert "1 MiB" in lees


def test_a_class_that_cannot_be_read_or_stored_is_a_usage_error(
    laid_out: LaidOut, reading: Reader, kept: ClassFolder, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        reading(tmp_path / "nothing")
    (tmp_path / "class.zip").write_bytes(b"PK")
    with pytest.raises(UsageError, match=r"class\.zip cannot be opened"):
        reading(tmp_path / "class.zip")
    (tmp_path / "class.tar").write_bytes(b"PK")
    with pytest.raises(UsageError, match="nor a zip"):
        reading(tmp_path / "class.tar")
    kept.folder.mkdir(exist_ok=True)
    (kept.folder / "submissions").write_text("in the way")
    with pytest.raises(UsageError, match="out cannot be written"):
        reading(laid_out({"kim/5.1.py": A}))


NAMES = ("kim~", "~kim", "lee.part", "zoe.pyc", "drafts 2")
"""Folder names that resemble those of tools."""


@pytest.mark.parametrize("packed", [False, True])
def test_only_exact_names_of_tools_are_ignored(
    laid_out: LaidOut, reading: Reader, tmp_path: Path, packed: bool
) -> None:
    files: dict[str, Content] = {f"{name}/5.1.py": f"# {name}" for name in (*NAMES, "ana")}
    files |= {"ana/drafts/in_place.py": "", "ana/venv/lib/code.py": "", ".git/5.1.py": "", "__pycache__/x.py": ""}
    files |= {"drafts/5.1.py": "", "__MACOSX/._my.py": ""}
    source = laid_out(files)
    if packed:
        source = tmp_path / "class.zip"
        source.write_bytes(zipped({f"export/{path}": content for path, content in files.items()}))
    class_ = reading(source)
    assert sorted(facts(class_)) == sorted((name, "one_big_copy") for name in (*NAMES, "ana"))
    assert class_.ignored == 6


def test_leftovers_do_not_hide_the_wrapper_folder(laid_out: LaidOut, reading: Reader) -> None:
    class_ = reading(laid_out({"all/ana/5.1.py": "a", "all/lee/5.1.py": "b", "__MACOSX/all/._5.1.py": "c"}))
    assert facts(class_) == [("ana", "one_big_copy"), ("lee", "one_big_copy")]


def test_students_without_a_gradable_file_are_listed(
    laid_out: LaidOut, reading: Reader, course: Course, tmp_path: Path
) -> None:
    files: dict[str, Content] = {"ana/5.1.py": "a", "kim/drafts/5.1.py": "b", "lee/5.1.py~": "c", "zoe.zip": zipped({})}
    source = laid_out(files)
    (source / "moe" / "05").mkdir(parents=True)
    (tmp_path / "class.zip").write_bytes(zipped({**files, "moe/": "", "moe/05/": ""}))
    for place in (source, tmp_path / "class.zip"):
        class_ = reading(place)
        assert [student.id for student in class_.students] == ["ana", "kim", "lee", "moe", "zoe"]
        assert facts(class_) == [("ana", "one_big_copy")]
        lines = summary(class_, course)
        assert lines[lines.index("  kim") :][:4] == ["  kim", "  lee", "  moe", "  zoe"]


def test_other_files_in_an_exercises_folder_are_no_students(laid_out: LaidOut, reading: Reader) -> None:
    source = laid_out({"5.1/ana.py": "a", "5.1/notes.md": "b", "5.1/.DS_Store": "c", "5.1/lee/solution.py": "d"})
    (source / "5.2").mkdir()
    class_ = reading(source)
    assert [student.id for student in class_.students] == ["ana", "lee"]
    assert [file.source for file in class_.unmatched] == ["5.1/notes.md"]


def test_a_repositorys_own_files_are_nobodys_solutions(laid_out: LaidOut, reading: Reader) -> None:
    class_ = reading(laid_out({"kim/5.1.py": "a", "kim/README.md": "b", "kim/.github/workflows/grade.yml": "c"}))
    assert class_.unmatched == ()
    assert class_.ignored == 2
