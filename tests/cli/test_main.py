"""The command line: verbs, options before and after them, and how the process ends."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from gpututor import __version__, cli
from gpututor.cli import main as main_module
from gpututor.cli.main import VERBS, main

COMMAND = [sys.executable, "-m", "gpututor.cli.main"]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The verb as a process of its own, without a terminal."""
    return subprocess.run(
        [*COMMAND, *words],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_help_names_every_verb_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    words = " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit, match="0"):
        main(["classroom", "--help"])
    words_of_classroom = " ".join(capsys.readouterr().out.split())
    for verb in VERBS:
        prefix, _, name = verb.name.rpartition(" ")
        assert f"{name} {verb.help}" in (words_of_classroom if prefix else words)


def test_every_verb_has_a_row_and_every_row_a_module_with_both_functions() -> None:
    """A verb is a row of `VERBS` and a module with `add_arguments` and `main`."""
    modules = {verb.module: importlib.import_module(verb.module) for verb in VERBS}
    assert len(modules) == len(VERBS)
    for verb in VERBS:
        assert verb.help
        assert modules[verb.module].__doc__
        assert callable(modules[verb.module].main)
    names = [each.name for each in pkgutil.walk_packages(cli.__path__, "gpututor.cli.")]
    with_arguments = {name for name in names if hasattr(importlib.import_module(name), "add_arguments")}
    assert with_arguments == set(modules)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_has_help_and_the_common_options(verb: main_module.Verb, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([*verb.name.split(), "--help"])
    text = capsys.readouterr().out
    assert text.startswith(f"usage: gpututor {verb.name} ")
    for option in ("--course DIR", "--workspace DIR", "--version"):
        assert option in text


@pytest.mark.parametrize("words", [["--version"], ["list", "--version"], ["--course", "x", "hint", "--version"]])
def test_the_version_is_told_before_and_after_a_verb(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(words)
    assert capsys.readouterr().out == f"gpututor {__version__}\n"


def test_the_folders_may_stand_before_or_after_the_verb(
    course_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(course_folder)
    outputs = []
    for words in (
        ["--course", folder, "list"],
        [f"--course={folder}", "list"],
        ["list", "--course", folder],
        ["--course", "/nowhere", "list", f"--course={folder}"],
    ):
        assert main(words) == 0
        outputs.append(capsys.readouterr().out)
    assert "twice_2_2" in outputs[0]
    assert set(outputs) == {outputs[0]}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["lst"], "There is no verb 'lst'.\nDid you mean 'list'?"),
        (["zzz"], "There is no verb 'zzz'.\n`gpututor --help`"),
        (["list", "--course", "/nowhere"], "/nowhere: there is no such folder"),
    ],
)
def test_wrong_words_are_told_on_stderr_and_end_with_2(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"gpututor: {told}")


@pytest.mark.parametrize("words", [["hint"], ["list", "--nope"], ["list", "--js"], ["--nope"], ["list", "more"]])
def test_missing_and_unknown_words_show_the_usage_and_end_with_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: gpututor")


def test_a_verb_imports_neither_torch_nor_textual_nor_another_verb() -> None:
    code = (
        "import sys; from gpututor.cli.main import main; main(['list', '--json']); "
        "print(*sorted(name for name in sys.modules if name.split('.')[0] in ('torch', 'textual', 'numpy', 'rich') "
        "or name.startswith('gpututor.cli.')), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr.split() == ["gpututor.cli.list", "gpututor.cli.main", "gpututor.cli.options"]


def test_without_a_verb_and_a_terminal_the_plain_verbs_are_named() -> None:
    ended = run()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "needs a terminal" in ended.stderr
    assert "`gpututor list`" in ended.stderr


def test_without_a_verb_the_app_gets_the_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[Path | None] = []

    def run_app(*folders: Path | None) -> int:
        given.extend(folders)
        return 0

    monkeypatch.setattr("gpututor.app.start.run", run_app)
    assert main(["--workspace", str(tmp_path)]) == 0
    assert given == [None, tmp_path]


def test_a_verb_as_a_process_prints_results_on_stdout_and_ends_with_its_code(course_folder: Path) -> None:
    listed = run("list", "--course", str(course_folder))
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "0 of 4 passed" in listed.stdout
    refused = run("solution", "1.1", "--course", str(course_folder))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Traceback" not in refused.stderr


def test_a_terminal_that_is_not_utf_8_gets_question_marks(course_folder: Path) -> None:
    ended = run("list", "--course", str(course_folder), PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "? to do" in ended.stdout


def test_a_reader_that_went_away_is_no_fault(course_folder: Path) -> None:
    command = [*COMMAND, "list", "--course", str(course_folder)]
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (main_module.PIPE_CLOSED, "")


def test_a_closed_stdout_is_no_fault(course_folder: Path) -> None:
    command = f"exec {' '.join(COMMAND)} list --course {course_folder} >&-"
    ended = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full to write to")
def test_a_full_disk_is_told_in_words(course_folder: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [*COMMAND, "list", "--course", str(course_folder)]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("gpututor: There is no space left")
    assert "Traceback" not in ended.stderr


def test_ctrl_c_at_a_question_ends_with_130_and_changes_nothing(course_folder: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "mine"
    common = ["--course", str(course_folder), "--workspace", str(workspace)]
    assert run("init", *common).returncode == 0
    path = workspace / "01_lesson_1" / "01_twice_1_1.py"
    path.write_text("mine = 1\n")
    # Where the tests run in the background, SIGINT may be ignored, and a child inherits that.
    code = "import signal; signal.signal(2, signal.default_int_handler); import gpututor.cli.main as c, sys; "
    keyboard, terminal = pty.openpty()
    asked = subprocess.Popen(
        [sys.executable, "-c", f"{code} sys.exit(c.main())", "reset", "1.1", *common],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
    )
    os.close(terminal)
    shown = ""
    while "[y/N]" not in shown:
        shown += os.read(keyboard, 1024).decode()
    asked.send_signal(2)
    out, _ = asked.communicate(timeout=30)
    assert (asked.returncode, out) == (main_module.INTERRUPTED, "")
    with contextlib.suppress(OSError):  # what Linux says at the end of a terminal
        while more := os.read(keyboard, 1024).decode():
            shown += more
    os.close(keyboard)
    assert "Traceback" not in shown
    assert path.read_text() == "mine = 1\n"
