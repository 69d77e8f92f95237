"""The command line: verbs, common options, errors, and exit codes."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpututor import __version__, cli, describe_version
from gpututor.cli import main as main_module
from gpututor.cli.main import VERBS, main
from tests.support.command_line import on_a_terminal, read_to_end, read_until
from tests.support.command_line import run_gpututor as run


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {}
    for words in ([], ["classroom"]):
        with pytest.raises(SystemExit, match="0"):
            main([*words, "--help"])
        texts[" ".join(words)] = " ".join(capsys.readouterr().out.split())
    for verb in VERBS:
        prefix, _, name = verb.name.rpartition(" ")
        assert f"{name} {verb.help}" in texts[prefix]


def test_every_verb_has_one_row_and_a_module_with_both_functions() -> None:
    modules = {verb.module: importlib.import_module(verb.module) for verb in VERBS}
    assert len(modules) == len(VERBS)
    for verb in VERBS:
        assert verb.help
        assert modules[verb.module].__doc__
        assert callable(modules[verb.module].main)
    names = [module.name for module in pkgutil.walk_packages(cli.__path__, "gpututor.cli.")]
    assert {name for name in names if hasattr(importlib.import_module(name), "add_arguments")} == set(modules)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_has_help_and_the_common_options(verb: main_module.Verb, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([*verb.name.split(), "--help"])
    text = capsys.readouterr().out
    assert text.startswith(f"usage: gpututor {verb.name} ")
    for option in ("--course DIR", "--workspace DIR", "--version"):
        assert option in text


@pytest.mark.parametrize("words", [["--version"], ["list", "--version"], ["--course", "x", "hint", "--version"]])
def test_version_works_before_and_after_a_verb(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(words)
    assert re.fullmatch(rf"gpututor {re.escape(__version__)}( \(commit \w+(, changed)?\))?\n", capsys.readouterr().out)


def test_the_version_names_the_commit_of_a_clone_and_its_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        return subprocess.run(["git", *author, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    module = tmp_path / "gpututor" / "__init__.py"
    module.parent.mkdir()
    module.write_text("")
    monkeypatch.setattr("gpututor.__file__", str(module))
    assert describe_version() == __version__, "no clone, as in a wheel"
    git("init", "-q")
    assert describe_version() == __version__, "no commit yet"
    git("add", ".")
    git("commit", "-q", "-m", "first")
    git("tag", "-m", "a name", "v1")
    commit = git("rev-parse", "--short", "HEAD").strip()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert describe_version() == f"{__version__} (commit {commit})"
    module.write_text("changed = True\n")
    assert describe_version() == f"{__version__} (commit {commit}, changed)"
    monkeypatch.setenv("PATH", "")
    assert describe_version() == __version__, "no git"


def test_course_and_workspace_work_before_and_after_the_verb(
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
    ("words", "named"),
    [(["lst"], "'list'"), (["zzz"], "`gpututor --help`"), (["list", "--course", "/nowhere"], "/nowhere")],
)
def test_a_wrong_word_is_an_error_with_advice(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out, named in err) == ("", True)


@pytest.mark.parametrize("words", [["hint"], ["list", "--nope"], ["list", "--js"], ["--nope"], ["list", "more"]])
def test_missing_and_unknown_words_print_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: gpututor")


def test_a_verb_imports_no_heavy_module_and_no_other_verb() -> None:
    code = (
        "import sys; from gpututor.cli.main import main; main(['list', '--json']); "
        "print(*sorted(name for name in sys.modules if name.split('.')[0] in ('torch', 'textual', 'numpy', 'rich') "
        "or name.startswith('gpututor.cli.')), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr.split() == ["gpututor.cli.list", "gpututor.cli.main", "gpututor.cli.options"]


def test_without_a_verb_the_app_gets_the_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[Path | None] = []

    def run_app(*folders: Path | None) -> int:
        given.extend(folders)
        return 0

    monkeypatch.setattr("gpututor.app.start.run", run_app)
    assert main(["--workspace", str(tmp_path)]) == 0
    assert given == [None, tmp_path]


def test_a_verb_prints_in_any_encoding_and_ends_with_its_code(course_folder: Path) -> None:
    listed = run("list", "--course", str(course_folder))
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "0 of 4 passed" in listed.stdout
    refused = run("solution", "1.1", "--course", str(course_folder))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Traceback" not in refused.stderr
    ended = run()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "`gpututor list`" in ended.stderr
    ended = run("list", "--course", str(course_folder), PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "? to do" in ended.stdout


@pytest.mark.parametrize(
    ("stdout", "code", "error"),
    [
        ("| true", main_module.PIPE_CLOSED, ""),
        (">&-", 0, ""),
        pytest.param(
            "> /dev/full",
            2,
            "gpututor: The disk is full",
            marks=pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full to write to"),
        ),
    ],
)
def test_an_unwritable_stdout_causes_no_traceback(course_folder: Path, stdout: str, code: int, error: str) -> None:
    # Waits before it prints, so that the reader of a pipe has ended.
    listing = f"{sys.executable} -m gpututor.cli.main list --course {course_folder}"
    command = f"set -o pipefail; (sleep 0.5; exec {listing}) {stdout}"
    ended = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == code
    assert ended.stderr.startswith(error)
    assert "Traceback" not in ended.stderr
    assert bool(ended.stderr) == bool(error)


def test_ctrl_c_at_a_question_changes_nothing(course_folder: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "mine"
    common = ["--course", str(course_folder), "--workspace", str(workspace)]
    assert run("init", *common).returncode == 0
    path = workspace / "01_lesson_1" / "01_twice_1_1.py"
    path.write_text("mine = 1\n")
    with on_a_terminal("reset", "1.1", *common) as (process, terminal):
        read_until(terminal, "[y/N]")
        os.write(terminal, b"\x03")
        assert "Traceback" not in read_to_end(terminal)
        assert process.wait(30) == main_module.INTERRUPTED
    assert path.read_text() == "mine = 1\n"
