"""Completion: candidates made from the parsers, and scripts that shells can run."""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.cli.completion import SCRIPTS, VALUES, candidates
from gpututor.cli.main import FIRST_VERBS, VERBS, add_verb_arguments, main
from gpututor.errors import UsageError
from gpututor.hardware.gpus import gpu_names
from tests.support.command_line import Call

SHELLS = [
    pytest.param(shell, marks=pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed"))
    for shell in SCRIPTS
]
COMPLETE = {
    "bash": 'COMP_WORDS=(gpututor "$@"); COMP_CWORD=$#; _gpututor gpututor; printf "%s\\n" "${COMPREPLY[@]}"',
    # What zsh has only at a prompt is replaced: the words that it would show are printed.
    "zsh": 'words=(gpututor "$@"); CURRENT=${#words}; _describe() { print -l -- $candidates; }; _gpututor',
    "fish": 'complete --do-complete "gpututor $argv"',
}
"""Commands of each shell that complete the last of their arguments."""


def complete(shell: str, folder: Path, *words: str) -> list[str]:
    """Return what the shell offers with its script, without descriptions."""
    program = f"{sys.executable} -m gpututor"
    define = {"fish": f"function gpututor; {program} $argv; end"}.get(shell, f'gpututor() {{ {program} "$@"; }}')
    ignore = "compdef() { :; }" if shell == "zsh" else ""
    code = "\n".join([define, ignore, SCRIPTS[shell], COMPLETE[shell]])
    flags = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    name = [] if shell == "fish" else [shell]
    command = [shell, *flags, "-c", code, *name, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    separator = {"zsh": ":", "fish": "\t"}.get(shell, "\n")
    return [line.partition(separator)[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_verbs_exercises_and_models(shell: str, tmp_path: Path) -> None:
    syntax = {"fish": "--no-execute"}.get(shell, "-n")
    script = tmp_path / "script"
    script.write_text(SCRIPTS[shell])
    subprocess.run([shell, syntax, str(script)], check=True)
    assert complete(shell, tmp_path, "gra") == ["grade"]
    assert complete(shell, tmp_path, "grade", "born_on") == ["born_on_the_device"]
    assert complete(shell, tmp_path, "hint", "2.1") == ["2.1"]
    assert complete(shell, tmp_path, "classroom", "rev") == ["review"]
    assert complete(shell, tmp_path, "trace", "--gpu", "T4,H2") == ["T4,H200"]
    assert "--isolation" in complete(shell, tmp_path, "grade", "1.1", "--")


def test_bash_completes_a_value_after_an_equals_sign(tmp_path: Path) -> None:
    assert complete("bash", tmp_path, "grade", "--isolation", "=", "bub") == ["bubblewrap"]
    assert complete("bash", tmp_path, "grade", "--isolation", "=") == ["auto", "process", "bubblewrap"]


def offered(*words: str) -> list[str]:
    return [word for word, _ in candidates(words)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("",), [verb.name for verb in FIRST_VERBS]),
        (("--ver",), ["--version"]),
        (("grade", "--mod"), ["--model"]),
        (("grade", "--model=H2"), ["--model=H200"]),
        (("grade", "--model", "A100"), ["A100-40", "A100-80"]),
        (("grade", "--device", "v"), ["virtual"]),
        (("grade", "--file", ""), []),
        (("grade", "1.1", "--js"), ["--json"]),
        (("run", "1.1", "--", "x", ""), []),
        (("list", "--path", ""), ["core"]),
        (("pack", "2.1", "tensors_on"), ["tensors_on_the_device"]),
        (("pack", "10"), ["10", *(f"10.{number}" for number in range(1, 10))]),
        (("classroom", "grade", "a.zip", "--executor", ""), ["local", "ray"]),
        (("doctor", ""), ["--help", "--course", "--workspace", "--version"]),
        (("verify", "--models", "T4,B"), ["T4,B200"]),
        (("completion", "z"), ["zsh"]),
    ],
)
def test_candidates_follow_the_words_before(words: tuple[str, ...], expected: list[str]) -> None:
    assert offered(*words) == expected


def test_candidates_come_from_the_named_course_and_need_a_known_verb(course_folder: Path) -> None:
    assert offered("--course", str(course_folder), "hint", "tw")[:2] == ["twice_1_1", "twice_1_2"]
    assert offered("hint", f"--course={course_folder}", "2") == ["2.1", "2.2"]
    with pytest.raises(UsageError):
        offered("grad", "2")


def test_each_offered_model_is_accepted() -> None:
    parser = argparse.ArgumentParser()
    add_verb_arguments(parser, importlib.import_module("gpututor.cli.verify"))
    names = offered("verify", "--models", "")
    assert parser.parse_args(["--models", ",".join(names)]).models == gpu_names()
    assert parser.parse_args(["--models", "h100, a100-40"]).models == ("H100", "A100 40")
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["--models", "H1000000"])


def test_a_shell_gets_its_script_or_an_error(gpututor: Call) -> None:
    for shell, script in SCRIPTS.items():
        assert gpututor("completion", shell).out == script
    with pytest.raises(SystemExit, match="2"):
        main(["completion", "tcsh"])


def arguments_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from arguments_of(inner)


def test_each_completed_value_belongs_to_an_argument() -> None:
    names: set[str] = set()
    for verb in VERBS:
        parser = argparse.ArgumentParser()
        add_verb_arguments(parser, importlib.import_module(verb.module))
        for action in arguments_of(parser):
            names |= {str(action.metavar), action.dest}
    assert set(VALUES) <= names
