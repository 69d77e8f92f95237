from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.errors import TutorError
from gpututor.settings import BY_KEY, SETTINGS, Settings, SettingsFile, read_settings, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "settings.toml"


def test_without_a_file_the_defaults_hold_and_none_is_made(path: Path) -> None:
    settings = SettingsFile(path)
    assert (settings.now, settings.faults) == (Settings(), ())
    assert not path.exists()


def test_a_new_file_explains_every_setting_and_says_the_same(path: Path) -> None:
    SettingsFile(path).create()
    text = path.read_text()
    for setting in SETTINGS:
        assert f"# {setting.help}\n" in text
    assert read_settings(path).settings == Settings()
    assert read_settings(path).faults == ()


def test_what_is_written_is_read_again(path: Path) -> None:
    chosen = Settings("nord", 'code "--wait" \\ ü', "saved", "none", "cuda:1", "H100", False)
    path.parent.mkdir()
    path.write_text(written(chosen))
    assert read_settings(path).settings == chosen


def test_a_change_in_the_app_keeps_order_and_comments_of_a_file_that_was_edited_by_hand(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('# mine\nmotion   =  "none"   # the train shakes\n\ntheme = "day"\n\n[other]\nx = 1\n')
    settings = SettingsFile(path)
    settings.choose("theme", "contrast")
    settings.choose("costs", False)
    assert path.read_text() == (
        '# mine\nmotion   =  "none"   # the train shakes\n\ntheme = "contrast"\ncosts = false\n\n[other]\nx = 1\n'
    )
    assert (settings.now.motion, settings.now.theme, settings.now.costs) == ("none", "contrast", False)


def test_a_change_on_disk_is_taken_at_the_next_look(path: Path) -> None:
    settings = SettingsFile(path)
    assert not settings.look()
    path.parent.mkdir()
    path.write_text('device = "cpu"\n')
    assert settings.look()
    assert settings.now.device == "cpu"
    assert not settings.look()
    path.unlink()
    assert settings.look()
    assert settings.now == Settings()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('motion = "some"', 'motion cannot be "some": it is "full" or "none". It is "full" now.'),
        ("costs = 1", "costs cannot be 1: it is true or false. It is true now."),
        ("theme = 7", 'theme cannot be 7: it is "night", "day", "terminal" or "contrast". It is "night" now.'),
        ('device = "gpu"', 'device cannot be "gpu": a device is "auto"'),
        ('gpu = "T5"', 'gpu cannot be "T5": a virtual GPU is exercise'),
        ('editor = "vi\\nm"', 'editor cannot be "vi\\nm": a command is one line.'),
        ('them = "day"', "there is no setting 'them'; did you mean 'theme'? Take the line out."),
    ],
)
def test_what_cannot_be_taken_is_told_with_file_and_line_and_the_rest_holds(path: Path, line: str, words: str) -> None:
    path.parent.mkdir()
    path.write_text(f'# a comment\nauto_run = "saved"\n{line}\n')
    reading = read_settings(path)
    assert len(reading.faults) == 1
    assert reading.faults[0].startswith(f"{path}, line 3: {words}")
    assert reading.settings == Settings(auto_run="saved")


@pytest.mark.parametrize("content", [b'theme = "day\n', b"\xff\xfe", b"= 3"])
def test_a_file_that_is_no_toml_gives_the_defaults_and_is_never_overwritten(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    settings = SettingsFile(path)
    assert settings.now == Settings()
    assert str(path) in settings.faults[0]
    with pytest.raises(TutorError, match="could not be written") as raised:
        settings.choose("theme", "day")
    assert str(path) in raised.value.advice
    assert settings.now.theme == "day", "the choice holds for now"
    assert path.read_bytes() == content


def test_a_folder_in_its_place_is_told(path: Path) -> None:
    path.mkdir(parents=True)
    settings = SettingsFile(path)
    assert "Is a directory" in settings.faults[0]
    with pytest.raises(TutorError):
        settings.choose("theme", "day")


def test_every_choice_of_every_setting_can_be_chosen(path: Path) -> None:
    settings = SettingsFile(path)
    for setting in SETTINGS:
        for choice in setting.choices:
            settings.choose(setting.key, choice)
            assert getattr(SettingsFile(path).now, setting.key) == choice
    assert set(BY_KEY) == set(Settings.__dataclass_fields__)
