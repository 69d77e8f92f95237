"""Files of feedback: HTML pages that no text can break, and zips with the names that Moodle and Canvas gave."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from gpututor.classroom.feedback import SubmittedLines, feedback
from gpututor.classroom.feedback_files import Feedback
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake import read_class
from gpututor.classroom.jobs import resolve_options
from gpututor.classroom.submissions import Student
from gpututor.cli.main import main
from gpututor.grading.report import Status
from gpututor.hardware.inventory import torch_version
from tests.support.class_layouts import Content, zipped
from tests.support.classes import ASKED, graded_class
from tests.support.gradebooks import EXERCISE, Upload, gradebook, report, verdict
from tests.support.report_strategies import TEXTS
from tests.support.shipped_course import COURSE

NOWHERE = SubmittedLines(ClassFolder(Path("nowhere")))
PROGRAM = "import torch\n"
MOODLE: dict[str, Content] = {
    "Kim Roe_11_assignsubmission_file_/one_big_copy.py": PROGRAM,
    "Kim Roe_12_assignsubmission_file/homework.zip": zipped({"one_big_copy.py": PROGRAM}),
    "Élodie d'Or_13_assignsubmission_file_one_big_copy.py": PROGRAM,
    "Lee Moe_14_assignsubmission_onlinetext_/onlinetext.html": "<p>done</p>",
}
CANVAS: dict[str, Content] = {
    "roekim_21_901_one_big_copy.py": PROGRAM,
    "roekim_21_1902_one_big_copy-1.py": f"{PROGRAM}# better\n",
    "poeana_LATE_22_903_homework-2.zip": zipped({"one_big_copy.py": PROGRAM}),
    "moelee_24_905_one_big_copy.ipynb": "{}",
    "leejo_23_text.html": "<p>done</p>",
    "leejo_23_2000_notes.pdf": "%PDF",
    "anon_x1Yz_904_wrong name.py": PROGRAM,
}


class Tags(HTMLParser):
    """The tags of a page, and their attributes except `class`."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs if name != "class"]


def page(text: str, hint: str = "") -> str:
    """Return the page of a student with `text` in all texts of other people."""
    failed = verdict("parity", Status.FAILED, sentence=text, expected=f"{text}x", got=f"{text}x", why=f"{text}x")
    kim = Student(f"kim{text}", f"¿{text}")
    book = gradebook([Upload(kim.id, report(verdict("loads"), failed))], students=[kim])
    return Feedback(kim, feedback(book, book.students[0], NOWHERE, {EXERCISE: (hint,)} if hint else {})).html


@given(TEXTS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_becomes_a_tag(text: str) -> None:
    assert Tags(page(text)).tags == Tags(page("x")).tags


@pytest.mark.parametrize("text", ["</pre></main><script>alert(1)</script>", '" onload="x', "![x](http://x) `<b>` &lt;"])
def test_a_page_is_self_contained_and_has_no_scripts(text: str) -> None:
    html = page(text, hint=f"## Look\n\n{text} [a](javascript:x)\n\n- `one`\n- two")
    shown = Tags(html)
    assert not {"script", "link", "img", "b"} & set(shown.tags)
    assert not {name for name in shown.attributes if name.startswith("on") or name in ("src", "style")}
    assert "javascript:" not in "".join(re.findall('href="[^"]*"', html))
    assert "default-src 'none'; style-src 'sha256-" in html
    assert "prefers-color-scheme: dark" in html
    assert {"h1", "table", "pre", "blockquote", "li"} <= set(shown.tags)


def test_html_is_written_next_to_markdown_and_kept_up_to_date(tmp_path: Path) -> None:
    folder = ClassFolder(tmp_path / "class")
    made = report(verdict("parity", Status.FAILED, got="4 <&> 5"))
    graded_class(folder, [(student, EXERCISE, PROGRAM, made) for student in ("kim", "lee")], COURSE.folder)
    words = ["classroom", "feedback", str(folder.folder)]
    assert main([*words, "--format", "html", "--student", "kim"]) == 0
    assert sorted(path.name for path in folder.feedback.iterdir()) == ["kim.html", "kim.md"]
    shown = (folder.feedback / "kim.html").read_text()
    assert "4 &lt;&amp;&gt; 5" in shown
    (folder.feedback / "kim.html").write_text("old marks")
    assert main(words) == 0
    assert (folder.feedback / "kim.html").read_text() == shown
    assert not (folder.feedback / "lee.html").exists()


def class_from(files: Mapping[str, Content], tmp_path: Path) -> ClassFolder:
    """Read a class from its platform's download, as `classroom grade` does, without grading it."""
    download, folder = tmp_path / "download.zip", ClassFolder(tmp_path / "class")
    download.write_bytes(zipped({f"export/{name}": content for name, content in files.items()}))
    class_ = read_class(download, COURSE, folder)
    folder.write_class(class_)
    resolve_options(ASKED, class_, COURSE, (), torch_version()).write(folder)
    return folder


def zip_of(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_feedback_in_german_keeps_names_and_texts_of_learners(tmp_path: Path) -> None:
    folder = ClassFolder(tmp_path / "class")
    passed = verdict("structure", sentence="The result has the right type, shape and dtype")
    failed = verdict(
        "syncs",
        Status.FAILED,
        sentence="No unnecessary waits for the device",
        expected="no waits for the device in a call",
        got="2 waits: `.item()` at line 1, 2 times (with due of shape (3,))",
        line=1,
        why="A sentence of the author.",
    )
    graded_class(folder, [("Got Line 1", EXERCISE, PROGRAM, report(passed, failed))], COURSE.folder)
    words = ["classroom", "feedback", str(folder.folder), "--language", "de", "--format", "html"]
    assert main(words) == 0
    [markdown] = folder.feedback.glob("*.md")
    text, page = markdown.read_text(), markdown.with_suffix(".html").read_text()
    assert text.startswith("# Rückmeldung für `Got Line 1`\n")
    assert "**✗ Nicht bestanden: 1 von 2 Prüfungen bestanden**" in text
    assert "### ✗ nicht bestanden: Kein unnötiges Warten auf das Gerät · 0 von 1" in text
    assert "Erwartet  kein Warten auf das Gerät in einem Aufruf" in text
    assert "Erhalten  2-mal Warten: `.item()` in Zeile 1, 2-mal (mit due der Form (3,))" in text
    assert "Zeile 1   import torch" in text
    assert "Warum: A sentence of the author." in text
    assert "- ✓ bestanden: Das Ergebnis hat den richtigen Typ" in text
    assert '<html lang="de">' in page
    assert "<title>Rückmeldung für Got Line 1</title>" in page
    with pytest.raises(SystemExit):
        main([*words, "--language", "xx"])
    folder.rules_file.write_text('language = "de"\n')
    markdown.unlink()
    assert main(["classroom", "feedback", str(folder.folder)]) == 0
    assert markdown.read_text() == text
    assert main(["classroom", "report", str(folder.folder), "--gradescope", str(tmp_path / "out")]) == 0
    [results] = (tmp_path / "out").glob("*/results.json")
    outputs = [test["output"] for test in json.loads(results.read_text())["tests"]]
    assert any("✗ nicht bestanden: Kein unnötiges Warten" in output for output in outputs)
    assert any("Zeile 1\nErwartet: kein Warten" in output for output in outputs)


def test_moodles_zip_has_the_folders_of_its_download(tmp_path: Path) -> None:
    folder, made = class_from(MOODLE, tmp_path), tmp_path / "moodle.zip"
    words = ["classroom", "feedback", str(folder.folder), "--moodle", str(made)]
    assert main(words) == 0
    files = zip_of(made)
    assert set(files) == {
        "Kim Roe_11_assignsubmission_file_/feedback.md",
        "Kim Roe_12_assignsubmission_file/feedback.md",
        "Élodie d'Or_13_assignsubmission_file_/feedback.md",
        "Lee Moe_14_assignsubmission_file_/feedback.md",
    }
    assert files["Kim Roe_12_assignsubmission_file/feedback.md"] == (folder.feedback / "12.md").read_text()
    assert main([*words, "--format", "html", "--student", "13"]) == 0
    assert zip_of(made) == {
        "Élodie d'Or_13_assignsubmission_file_/feedback.html": (folder.feedback / "13.html").read_text()
    }


def test_canvass_zip_has_the_name_of_each_students_last_upload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, made = class_from(CANVAS, tmp_path), tmp_path / "canvas.zip"
    assert main(["classroom", "feedback", str(folder.folder), "--format", "html", "--canvas", str(made)]) == 0
    with zipfile.ZipFile(made) as archive:
        assert set(archive.namelist()) == {
            "roekim_21_1902_one_big_copy-1.py", "poeana_LATE_22_903_homework-2.zip", "anon_x1Yz_904_wrong name.py",
            "moelee_24_905_one_big_copy.ipynb",
        }  # fmt: skip
        (cell,) = json.loads(archive.read("moelee_24_905_one_big_copy.ipynb"))["cells"]
        program = archive.read("roekim_21_1902_one_big_copy-1.py").decode()
        homework = archive.extract("poeana_LATE_22_903_homework-2.zip", tmp_path)
    assert program == (folder.feedback / "21.md").read_text()
    assert (cell["cell_type"], cell["source"]) == ("markdown", (folder.feedback / "24.md").read_text())
    assert zip_of(Path(homework)) == {"feedback.html": (folder.feedback / "22.html").read_text()}
    assert "1 student (23)" in capsys.readouterr().err


def test_a_class_without_the_platforms_names_is_an_error_with_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, made = class_from(MOODLE, tmp_path), tmp_path / "made.zip"
    words = ["classroom", "feedback", str(folder.folder)]
    assert main([*words, "--canvas", str(made)]) == 2
    assert "`moodle`, not `canvas`" in capsys.readouterr().err
    download = (tmp_path / "download.zip").read_bytes()
    assert main([*words, "--moodle", str(tmp_path / "download.zip")]) == 2
    assert "Name another file." in capsys.readouterr().err
    assert (tmp_path / "download.zip").read_bytes() == download
    data = json.loads(folder.class_file.read_text())
    assert main([*words, "--moodle", str(folder.class_file)]) == 2
    assert json.loads(folder.class_file.read_text()) == data
    for student in data["students"]:
        del student["upload"]
    folder.class_file.write_text(json.dumps(data))
    assert main([*words, "--moodle", str(made)]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "older versions did not keep them" in error
    assert "--resume" in error
    assert not made.exists()
    assert main(words) == 0
