"""`gpututor grade --all`: the summary, JUnit XML and annotations, and the workflows that use it."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt

from gpututor.cli.annotations import GradedFile, annotations_of, append_job_summary
from gpututor.cli.main import VERBS, add_common_options, add_verb_arguments, main
from gpututor.course.loader import load_course
from gpututor.grading.report import Outcome, Status
from tests.support import ROOT
from tests.support.classes import report_of
from tests.support.gradebooks import report, verdict
from tests.support.tiny_course import RIGHT, WRONG, write_course

GUIDE = ROOT / "docs" / "classroom" / "github.md"
WORKFLOWS = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)

GCC = re.compile(r"(.*):(\d+):(\d+):\s+(?:fatal\s+)?(warning|error):\s+(.*)")
"""VS Code's problem matcher `$gcc`."""


def test_all_changed_files_are_graded_and_summarized(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    course, work, junit = write_course(tmp_path / "course", exercises=5), tmp_path / "work", tmp_path / "junit.xml"
    words = ["--course", str(course), "--workspace", str(work)]
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    assert main([*words, "init", str(work)]) == 0
    capsys.readouterr()
    assert main([*words, "grade", "--all", "--junit", str(junit)]) == 0
    assert "5 unchanged starters" in capsys.readouterr().out

    files = {number: work / "01_lesson_1" / f"0{number}_twice_1_{number}.py" for number in range(1, 6)}
    files[1].write_text(RIGHT)
    assert main([*words, "grade", "--all"]) == 0
    files[2].write_text(WRONG)
    files[3].write_bytes(b"\xff")
    files[4].unlink()
    capsys.readouterr()
    assert main([*words, "grade", "--all", "--junit", str(junit), "--annotate", "github"]) == 1
    out = capsys.readouterr().out
    assert out.endswith(
        "3 files graded: 1 passed, 1 failed, 1 rejected. Not graded: 1 unchanged starter, 1 missing file.\n"
    )
    commands = [line for line in out.splitlines() if line.startswith("::")]
    assert [line.partition(",")[0] for line in commands] == [
        f"::error file=work/01_lesson_1/{files[number].name}" for number in (2, 3)
    ]
    assert ",line=2,title=1.2 twice_1_2%3A value::" in commands[0]
    assert main([*words, "grade", str(files[2]), "--annotate", "gcc"]) == 1
    problem = GCC.fullmatch(capsys.readouterr().out.splitlines()[-1])
    assert problem is not None
    assert problem.group(1, 2, 3, 4) == (f"work/01_lesson_1/{files[2].name}", "2", "1", "error")
    root = ET.parse(junit).getroot()
    assert (root.get("failures"), root.get("errors")) == ("1", "1")
    failed = root.find(".//testcase[@classname='lesson_1/twice_1_2'][@name='value']/failure")
    assert failed is not None
    assert root.find(".//testcase[@classname='lesson_1/twice_1_1']/failure") is None


def test_annotations_are_escaped(tmp_path: Path) -> None:
    exercise = load_course(write_course(tmp_path / "course", exercises=1)).exercises[0]
    path = tmp_path / "a,b:c%.py"
    hostile = verdict("value", Status.FAILED, got="100%\n::error::\r\x1b[31m", line=3)
    root = {"GITHUB_WORKSPACE": str(tmp_path)}
    [command] = annotations_of(GradedFile(exercise, path, report(hostile)), "github", root)
    assert command.startswith(
        "::error file=a%2Cb%3Ac%25.py,line=3,title=1.1 twice_1_1%3A value::value is right%0AGot: 100%25%0A::e"
    )
    assert not {"\n", "\r", "\x1b"} & set(command)
    undecided = report_of(exercise.key, Outcome.INCONCLUSIVE)
    [command] = annotations_of(GradedFile(exercise, path, undecided), "github", {})
    assert command.startswith("::warning file=")
    assert not list(annotations_of(GradedFile(exercise, path, report(verdict("value"))), "github", {}))
    [line] = annotations_of(GradedFile(exercise, path, report(hostile)), "gcc", root)
    assert GCC.fullmatch(line) is not None
    assert line.startswith("a,b:c%.py:3:1: error: value is right · Got: 100% ::error:: ")
    assert "\x1b" not in line


@pytest.mark.long
def test_the_job_summary_has_a_row_for_each_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    course, work, path = write_course(tmp_path / "course", exercises=2), tmp_path / "work", tmp_path / "summary.md"
    words = ["--course", str(course), "--workspace", str(work)]
    assert main([*words, "init", str(work)]) == 0
    (work / "01_lesson_1" / "01_twice_1_1.py").write_text(RIGHT)
    (work / "01_lesson_1" / "02_twice_1_2.py").write_text(WRONG)
    path.write_text("of another step\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    assert main([*words, "grade", "--all"]) == 1
    assert path.read_text() == "of another step\n"
    assert main([*words, "grade", "--all", "--annotate", "github"]) == 1
    rows = [line.split(" | ") for line in path.read_text().splitlines() if line.startswith("| 1.")]
    assert {(row[0], row[2]) for row in rows} >= {("| 1.1 twice_1_1", "✓ passed"), ("| 1.2 twice_1_2", "✗ failed")}
    [failed] = [row for row in rows if row[2] == "✗ failed"]
    assert failed[3].startswith("Line 2<br>Expected: ")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "missing" / "summary.md"))
    assert main([*words, "grade", "1.1", "--annotate", "github"]) == 2


def test_texts_of_learners_are_no_markup_in_the_job_summary(tmp_path: Path) -> None:
    exercise = load_course(write_course(tmp_path / "course", exercises=1)).exercises[0]
    shapes: list[list[object]] = []
    for got in ("x", "a | b\n# c <script>`[d](e)` ![f](g) **h** @i \\|", "\x1b[31m\u202e" + "z" * 5000):
        path = tmp_path / f"{len(shapes)}.md"
        graded = GradedFile(exercise, tmp_path / "a.py", report(verdict("value", Status.FAILED, got=got)))
        append_job_summary([graded], "1 file graded.", "github", {"GITHUB_STEP_SUMMARY": str(path)})
        tokens = MarkdownIt("gfm-like").parse(path.read_text())
        shapes.append([token.type for token in tokens] + [len(token.children or ()) > 1 for token in tokens])
        assert len(path.read_text()) < 1000
        assert not {"\x1b", "\u202e"} & set(path.read_text())
        html = MarkdownIt("gfm-like").render(path.read_text())
        assert html.count("<td") == 8
        assert not any(tag in html for tag in ("<script", "<a ", "<img", "<code", "<h1"))
    assert shapes[0] == shapes[1] == shapes[2]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("grade", "--all"),
        ("grade 1.1 --all", "EXERCISE"),
        ("grade --all --file x.py", "--file"),
        ("grade --all --json", "--json"),
        ("grade 1.1 --junit x.xml", "--all"),
        ("grade 1.1 --annotate gcc --json", "--json"),
    ],
)
def test_options_that_do_not_fit_are_named(words: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize("text", WORKFLOWS, ids=["students", "teacher"])
def test_the_workflows_are_valid_and_their_commands_exist(text: str) -> None:
    workflow: dict[Any, Any] = yaml.safe_load(text)
    assert {"name", True, "jobs", "permissions"} <= set(workflow)  # `on` is true in YAML 1.1
    [job] = workflow["jobs"].values()
    assert job["runs-on"]
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    lines = [line.strip() for step in job["steps"] for line in step.get("run", "").splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("gpututor ")]
    assert commands
    for words in commands:
        parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
        add_common_options(parser, default=None)
        subparsers = parser.add_subparsers(required=True)
        for verb in (verb for verb in VERBS if not verb.name.startswith("classroom ")):
            add_verb_arguments(subparsers.add_parser(verb.name), importlib.import_module(verb.module))
        parser.parse_args(words)


def test_the_guide_has_both_workflows() -> None:
    assert [yaml.safe_load(text)["name"] for text in WORKFLOWS] == ["gpututor", "nightly class"]
