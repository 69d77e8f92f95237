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
from gpututor.errors import UsageError
from tests.support.command_line import Call

RIGHT = "def twice(number):\n    return 2 * number\n"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the settings are; the file is not there yet."""
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "home"))
    paths.settings_file().parent.mkdir(parents=True)
    return paths.settings_file()


def settled(words: str, *, by_settings: bool = True) -> tuple[str, str | None, str]:
    parser = argparse.ArgumentParser()
    add_device_arguments(parser)
    arguments = parser.parse_args(words.split())
    told = settle_device(arguments, by_settings=by_settings)
    return arguments.device, arguments.gpu, told


@pytest.mark.parametrize(
    ("chosen", "words", "holds"),
    [
        ("", "", ("auto", None, "")),
        ('device = "auto"\ngpu = "exercise"\n', "", ("auto", None, "")),
        ('device = "virtual"\n', "", ("virtual", None, "--device virtual, as your settings say")),
        ('gpu = "H100"\n', "", ("auto", "H100", "--model H100, as your settings say")),
        ('gpu = "H100"\n', "--model L4", ("auto", "L4", "")),
        ('gpu = "H100"\n', "--device cpu", ("cpu", None, "")),
        ('device = "virtual"\ngpu = "H100"\n', "--device auto", ("auto", "H100", "--model H100, as your settings say")),
        (
            'device = "virtual"\ngpu = "H100"\n',
            "--gpus 2",
            ("virtual", "H100", "--device virtual --model H100, as your settings say"),
        ),
        ('device = "cuda:1"\ngpu = "H100"\n', "", ("cuda:1", None, "--device cuda:1, as your settings say")),
        ('device = "cuda"\n', "--model L4", ("auto", "L4", "")),
    ],
)
def test_an_option_comes_before_the_settings(
    settings: Path, chosen: str, words: str, holds: tuple[str, str | None, str]
) -> None:
    settings.write_text(chosen)
    assert settled(words) == holds


def test_without_being_asked_for_the_settings_are_not_looked_at(settings: Path) -> None:
    settings.write_text('device = "cpu"\ngpu = "H100"\n')
    assert settled("", by_settings=False) == ("auto", None, "")


def test_options_that_contradict_each_other_are_refused_whatever_the_settings_say(settings: Path) -> None:
    settings.write_text('device = "virtual"\n')
    with pytest.raises(UsageError, match="--gpus is for the virtual GPU, not for --device cpu"):
        settled("--device cpu --gpus 2")


def test_a_setting_that_cannot_be_is_told_and_does_not_hold(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings.write_text('device = "gpu"\n')
    assert settled("") == ("auto", None, "")
    assert 'line 1: device cannot be "gpu"' in capsys.readouterr().err


@pytest.mark.long
def test_ones_own_file_is_graded_as_in_the_app_and_the_work_of_others_is_not(
    gpututor: Call, course_folder: Path, settings: Path, tmp_path: Path
) -> None:
    make_workspace(tmp_path / "mine", load_course(course_folder))
    theirs = tmp_path / "theirs.py"
    theirs.write_text(RIGHT)
    settings.write_text('device = "virtual"\ngpu = "H100"\n')
    words = ("--workspace", str(tmp_path / "mine"), "grade", "1.1", "--isolation", "process")
    own, other = gpututor(*words), gpututor(*words, "--file", str(theirs))
    assert "virtual H100 (modelled)" in own.out
    assert "gpututor: --device virtual --model H100, as your settings say" in own.err
    assert "H100" not in other.out
    assert "settings" not in other.err


def test_watch_names_what_comes_from_the_settings_at_each_grading(
    gpututor: Call, course_folder: Path, settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_workspace(tmp_path / "mine", load_course(course_folder))
    settings.write_text('gpu = "H100"\n')
    monkeypatch.setattr(LineReader, "lines", lambda keyboard, timeout_s: ["q"])
    said = gpututor("--workspace", str(tmp_path / "mine"), "watch", "1.1")
    assert "1.1 Twice 1\n  --model H100, as your settings say\n" in said.out
