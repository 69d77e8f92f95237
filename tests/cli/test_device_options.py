"""The device of a run: options first, then the settings, then auto."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from gpututor import paths
from gpututor.cli.device_options import add_device_arguments, settle_device
from gpututor.cli.terminal import LineReader
from gpututor.course.loader import load_course
from gpututor.course.workspace import make_workspace
from gpututor.devices.run_program import parse_device
from gpututor.errors import UsageError
from tests.support.command_line import Call
from tests.support.tiny_course import RIGHT


@pytest.fixture
def settings() -> Path:
    """Path of the settings, which do not exist yet."""
    paths.settings_file().parent.mkdir(parents=True)
    return paths.settings_file()


def settled(words: str, *, by_settings: bool = True) -> tuple[str, str | None, str]:
    parser = argparse.ArgumentParser()
    add_device_arguments(parser)
    arguments = parser.parse_args(words.split())
    from_settings = settle_device(arguments, by_settings=by_settings)
    return arguments.device, arguments.gpu, from_settings.removesuffix(", as your settings say")


@pytest.mark.parametrize(
    ("chosen", "words", "expected"),
    [
        ("", "", ("auto", None, "")),
        ('device = "auto"\ngpu = "exercise"\n', "", ("auto", None, "")),
        ('device = "virtual"\n', "", ("virtual", None, "--device virtual")),
        ('gpu = "H100"\n', "", ("auto", "H100", "--model H100")),
        ('gpu = "H100"\n', "--model L4", ("virtual", "L4", "")),
        ("", "--gpus 0", ("virtual", None, "")),
        ('gpu = "H100"\n', "--device cpu", ("cpu", None, "")),
        ('device = "virtual"\ngpu = "H100"\n', "--device auto", ("auto", "H100", "--model H100")),
        ('device = "virtual"\ngpu = "H100"\n', "--gpus 2", ("virtual", "H100", "--device virtual --model H100")),
        ('device = "cuda:1"\ngpu = "H100"\n', "", ("cuda:1", None, "--device cuda:1")),
        ('device = "cuda"\n', "--model L4", ("virtual", "L4", "")),
    ],
)
def test_options_override_the_settings(
    settings: Path, chosen: str, words: str, expected: tuple[str, str | None, str]
) -> None:
    settings.write_text(chosen)
    assert settled(words) == expected


def test_others_files_and_invalid_settings_change_no_options(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.write_text('device = "cpu"\ngpu = "H100"\n')
    assert settled("", by_settings=False) == ("auto", None, "")
    settings.write_text('device = "virtual"\n')
    with pytest.raises(UsageError, match="--gpus"):
        settled("--device cpu --gpus 0")
    settings.write_text('device = "gpu"\n')
    assert settled("") == ("auto", None, "")
    assert "line 1: device" in capsys.readouterr().err


@pytest.mark.long
def test_only_the_learners_own_file_uses_the_settings(
    gpututor: Call, course_folder: Path, settings: Path, tmp_path: Path
) -> None:
    make_workspace(tmp_path / "mine", load_course(course_folder))
    theirs = tmp_path / "theirs.py"
    theirs.write_text(RIGHT)
    settings.write_text('device = "virtual"\ngpu = "H100"\n')
    words = ("--workspace", str(tmp_path / "mine"), "grade", "1.1", "--isolation", "process")
    own, other = gpututor(*words), gpututor(*words, "--file", str(theirs))
    assert "virtual H100 (modelled)" in own.out
    assert "--device virtual --model H100" in own.err
    assert "H100" not in other.out
    assert "settings" not in other.err


def test_watch_names_the_options_from_the_settings(
    gpututor: Call, course_folder: Path, settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_workspace(tmp_path / "mine", load_course(course_folder))
    settings.write_text('gpu = "H100"\n')
    monkeypatch.setattr(LineReader, "lines", lambda keyboard, timeout_s: ["q"])
    said = gpututor("--workspace", str(tmp_path / "mine"), "watch", "1.1")
    assert "1.1 Twice 1\n  --model H100" in said.out


@pytest.mark.parametrize(("gpus", "memory", "option"), [("9", None, "--gpus"), ("1", "12", "--memory")])
def test_an_invalid_machine_names_its_option_and_advises(gpus: str, memory: str | None, option: str) -> None:
    with pytest.raises(UsageError, match=option) as raised:
        parse_device("virtual", None, gpus, memory)
    assert raised.value.advice
