"""Settings: the file, hand edits, changes in the app, and invalid values."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.errors import TutorError
from gpututor.settings import BY_KEY, KEYS, SETTINGS, Settings, SettingsFile, read_settings, settings_text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "settings.toml"


def test_without_a_file_the_defaults_apply_and_a_new_one_explains_them(path: Path) -> None:
    settings = SettingsFile(path)
    assert (settings.now, settings.faults) == (Settings(), ())
    assert not path.exists()
    SettingsFile(path).create()
    text = path.read_text()
    for setting in SETTINGS:
        assert f"# {setting.help}\n" in text
    assert "or another theme of Textual, such as nord.\n" in text, "the app's own themes are not all there are"
    assert 'or "cuda:N".\n' in text
    assert read_settings(path).settings == Settings()
    assert read_settings(path).faults == ()


def test_settings_survive_writing_and_reading(path: Path) -> None:
    chosen = Settings("nord", 'code "--wait" \\ ü', "saved", "none", "cuda:1", "H100", False)
    path.parent.mkdir()
    path.write_text(settings_text(chosen))
    assert read_settings(path).settings == chosen


def test_a_change_in_the_app_keeps_order_and_comments(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('# mine\nmotion   =  "none"   # the train shakes\n\ntheme = "day"\n\n[other]\nx = 1\n')
    settings = SettingsFile(path)
    settings.choose("theme", "contrast")
    settings.choose("costs", False)
    assert path.read_text() == (
        '# mine\nmotion   =  "none"   # the train shakes\n\ntheme = "contrast"\ncosts = false\n\n[other]\nx = 1\n'
    )
    assert (settings.now.motion, settings.now.theme, settings.now.costs) == ("none", "contrast", False)


def test_a_change_on_disk_is_read_at_the_next_reload(path: Path) -> None:
    settings = SettingsFile(path)
    assert not settings.reload()
    path.parent.mkdir()
    path.write_text('device = "cpu"\n')
    assert settings.reload()
    assert settings.now.device == "cpu"
    assert not settings.reload()
    path.unlink()
    assert settings.reload()
    assert settings.now == Settings()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('motion = "some"', '"full" or "none"'),
        ("costs = 1", "true or false"),
        ("theme = 7", '"terminal"'),
        ('device = "gpu"', '"auto"'),
        ('gpu = "T5"', "exercise"),
        ('editor = "vi\\nm"', "editor"),
        ('them = "day"', "'theme'"),
    ],
)
def test_an_invalid_setting_is_reported_with_its_line_and_ignored(path: Path, line: str, named: str) -> None:
    path.parent.mkdir()
    path.write_text(f'# a comment\nauto_run = "saved"\n{line}\n')
    reading = read_settings(path)
    assert len(reading.faults) == 1
    assert reading.faults[0].startswith(f"{path}, line 3: ")
    assert named in reading.faults[0]
    assert reading.settings == Settings(auto_run="saved")


@pytest.mark.parametrize("content", [b'theme = "day\n', b"\xff\xfe", b"= 3"])
def test_a_file_that_is_no_toml_is_never_overwritten(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    settings = SettingsFile(path)
    assert settings.now == Settings()
    assert str(path) in settings.faults[0]
    with pytest.raises(TutorError) as raised:
        settings.choose("theme", "day")
    assert str(path) in raised.value.advice
    assert settings.now.theme == "day", "the choice applies to this process"
    assert path.read_bytes() == content


def test_a_folder_in_place_of_the_file_is_reported(path: Path) -> None:
    path.mkdir(parents=True)
    settings = SettingsFile(path)
    assert "Is a directory" in settings.faults[0]
    with pytest.raises(TutorError):
        settings.choose("theme", "day")


def test_an_invalid_choice_changes_nothing_and_names_the_valid_value(path: Path) -> None:
    settings = SettingsFile(path)
    with pytest.raises(TutorError) as raised:
        settings.choose("motion", "some")
    assert raised.value.advice.endswith(f'"{settings.now.motion}".')
    assert settings.now == Settings()
    assert not path.exists()


def test_every_choice_of_every_setting_can_be_chosen(path: Path) -> None:
    settings = SettingsFile(path)
    for setting in SETTINGS:
        for choice in setting.choices:
            settings.choose(setting.key, choice)
            assert getattr(SettingsFile(path).now, setting.key) == choice
    assert {*BY_KEY, KEYS} == set(Settings.__dataclass_fields__)
