"""Manifests: defaults, and mistakes reported with key and expected value."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpututor.course import loader
from gpututor.course.loader import COURSE_KEYS, EXERCISE_KEYS, LESSON_KEYS, exercise_mistakes
from gpututor.course.model import Limits
from gpututor.errors import CourseError
from gpututor.hardware.gpus import gpu_names
from gpututor.hardware.scenario import Scenario
from gpututor.toml_schema import Key
from tests.support.timeouts import no_waiting
from tests.support.tiny_course import EXERCISE

GOOD = EXERCISE.format(number=1)


class Manifest(NamedTuple):
    values: dict[str, Any]
    mistakes: tuple[CourseError, ...]


def read_manifest(path: Path, keys: Sequence[Key]) -> Manifest:
    problems: list[CourseError] = []
    values = loader.read_manifest(path, keys, problems)
    return Manifest(values, tuple(problems))


def manifest_of(folder: Path, text: str | bytes, keys: tuple[Key, ...] = EXERCISE_KEYS) -> Manifest:
    path = folder / "exercise.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    manifest = read_manifest(path, keys)
    assert all(mistake.title.startswith(f"{path}: ") for mistake in manifest.mistakes)
    return manifest


def values_of(folder: Path, text: str, keys: tuple[Key, ...] = EXERCISE_KEYS) -> dict[str, Any]:
    """Return the values of a manifest without mistakes."""
    manifest = manifest_of(folder, text, keys)
    assert manifest.mistakes == ()
    return manifest.values


def titles(folder: Path, text: str | bytes, keys: tuple[Key, ...] = EXERCISE_KEYS) -> list[str]:
    """Return the mistakes of a manifest, without the path that each begins with."""
    prefix = f"{folder / 'exercise.toml'}: "
    return [str(mistake).removeprefix(prefix) for mistake in manifest_of(folder, text, keys).mistakes]


def test_defaults_scenarios_limits_and_excused_mutants_are_read(tmp_path: Path) -> None:
    values = values_of(tmp_path, GOOD.replace('devices = ["virtual", "cuda", "cpu"]\n', ""))
    assert (values["cases"], values["devices"]) == (3, ("virtual", "cuda"))
    assert [Scenario(**scenario) for scenario in values["scenario"]] == [Scenario("one GPU")]
    assert Limits(**values["limits"]) == Limits()
    for line, gpus in (("", 1), ("gpus = 2\n", 2)):
        assert values_of(tmp_path, f'title = "a"\nsummary = "b"\n{line}', LESSON_KEYS)["gpus"] == gpus
    scenarios = Scenario("none", gpus=0, backends=()), Scenario("two", gpus=2, memory_mib=64)
    values = values_of(
        tmp_path,
        f'{GOOD}[[scenario]]\nname = "none"\ngpus = 0\nbackends = []\n'
        '[[scenario]]\nname = "two"\ngpus = 2\nmemory_mib = 64\n'
        '[limits]\nwall_s = 2\n[[excused_mutant]]\nchange = "drop .to(device) of x"\nreason = "It is there."\n',
    )
    assert tuple(Scenario(**scenario) for scenario in values["scenario"]) == scenarios
    assert Limits(**values["limits"]) == Limits(wall_s=2)
    assert values["excused_mutant"] == ({"change": "drop .to(device) of x", "reason": "It is there."},)


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("minutes = 5", "minutes = 0", "minutes", "1 to 240, got 0"),
        ("minutes = 5", "minutes = true", "minutes", "got true"),
        ("minutes = 5", "minutes = 1e3", "minutes", "got 1000.0"),
        ("minutes = 5", 'minutes = "5"', "minutes", "got '5'"),
        ("minutes = 5", f"minutes = {10**30}", "minutes", "got a number"),
        ("minutes = 5", "minutes = 2025-01-01", "minutes", "a date without a time"),
        ("minutes = 5", "", "minutes", "missing"),
        ('"twice"', '"2ice"', "entry", "got '2ice'"),
        ('"twice"', '"class"', "entry", "got 'class'"),
        ('"twice"', '["twice"]', "entry", "got a list"),
        ('"Twice 1"', '""', "title", "1 to 60 characters, got ''"),
        ('"Twice 1"', '"Twice\\n1"', "title", "got 'Twice\\n1'"),
        ('"Twice 1"', '"\\u202eTwice"', "title", "got '\\u202eTwice'"),
        ('"function"', '"functoin"', "kind", "mean 'function'?"),
        ('"function"', "3", "kind", "got 3"),
        ('"function"', '"processes"\nprocesses = 1', "processes", "2 to 8, got 1"),
        ('"function"', '"processes"\nprocesses = 9', "processes", "got 9"),
        ('"function"', '"processes"\nprocesses = true', "processes", "got true"),
        ('"cpu"]', '"cudaa"]', "devices[2]", "mean 'cuda'?"),
        ('"cpu"]', "{}]", "devices[2]", "got a table"),
        ('"cpu"]', '"cuda"]', "devices[2]", "'cuda' is listed twice"),
        ('["virtual", "cuda", "cpu"]', "[]", "devices", "virtual, cuda, mps, xpu, cpu"),
        ('["virtual", "cuda", "cpu"]', '"cuda"', "devices", "got 'cuda'"),
        ("minutes", "minuts", "minuts", "mean 'minutes'?"),
        ("kind", "zzz", "zzz", "title, summary, minutes, kind,"),
        ("minutes = 5", 'minutes = 5\n"a b" = 1', "'a b'", "unknown key"),
        ("minutes = 5", "minutes = 5\ncases = 101", "cases", "1 to 100, got 101"),
        ("minutes = 5", "minutes = 5\nscenario = []", "scenario", "1 to 32 tables"),
        ("minutes = 5", "minutes = 5\nscenario = [1]", "scenario[0]", "a table, got 1"),
        ("minutes = 5", "minutes = 5\nlimits = 3", "limits", "[limits], got 3"),
        ("minutes = 5", "minutes = 5\nlimits.wall_s = nan", "limits.wall_s", "0.1 to 600"),
        ("minutes = 5", 'minutes = 5\nexcused_mutant = [{change = "a"}]', "excused_mutant[0].reason", "missing"),
        ("minutes = 5", "minutes = 5\nlimits.walls = 1", "limits.walls", "mean 'wall_s'?"),
    ],
)
def test_a_mistake_names_its_key_and_the_value(tmp_path: Path, old: str, new: str, key: str, words: str) -> None:
    assert old in GOOD
    mistakes = titles(tmp_path, GOOD.replace(old, new))
    assert any(mistake.startswith(f"{key}: ") and words in mistake for mistake in mistakes), mistakes


def test_contradictions_and_unknown_gpus_are_refused(tmp_path: Path) -> None:
    values = values_of(tmp_path, GOOD.replace("minutes = 5", "minutes = 5\nprocesses = 2"))
    assert [mistake.key for mistake in exercise_mistakes(values)] == ["processes"]
    scenarios = ({"name": "a", "gpu": "T4"}, {"name": "a", "gpu": "T5"})
    same, unknown = exercise_mistakes({"scenario": scenarios})
    assert (same.key, unknown.key) == ("scenario", "scenario[1].gpu")
    assert "'a'" in same.problem
    assert "'T5'" in unknown.problem
    assert Scenario("").gpu in gpu_names()


TWO_SCENARIOS = GOOD + '[[scenario]]\nname = "a"\n[[scenario]]\nname = "b"\n'


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("gpus = 9", "gpus"),
        ("gpu_s = 1", "gpu_s"),
        ('backends = ["cuda", "rocm"]', "backends[1]"),
        ("memory_mib = 0", "memory_mib"),
    ],
)
def test_a_mistake_in_a_scenario_names_its_index(tmp_path: Path, line: str, key: str) -> None:
    (mistake,) = titles(tmp_path, f"{TWO_SCENARIOS}{line}\n")
    assert mistake.startswith(f"scenario[1].{key}: ")


def test_all_mistakes_and_missing_manifests_are_reported(tmp_path: Path) -> None:
    text = GOOD.replace("5", "0").replace('"twice"', '"2"').replace("summary", "sumary") + "[limits]\nwall_s = -1\n"
    keys = ["sumary", "summary", "minutes", "entry", "limits.wall_s"]
    assert [title.partition(":")[0] for title in titles(tmp_path, text)] == keys
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")
    for name, problem in (
        ("none.toml", "the file is missing"),
        ("folder.toml", "cannot be read (Is a directory)"),
        ("pipe.toml", "cannot be read"),
    ):
        with no_waiting():
            (mistake,) = read_manifest(tmp_path / name, COURSE_KEYS).mistakes
        assert mistake.title.startswith(f"{tmp_path / name}: {problem}")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ('title = "a"\nsummary = oops\n', "line 2, column 11"),
        (b'title = "a"\nsummary = "\xff"\n', "UTF-8 text (line 2)"),
        ("x = " + "[" * 5000, "nested too deeply"),
        ("x = " + "1" * 5000, "Exceeds the limit"),
        ("#" * 300_000, "larger than 256 KiB"),
    ],
)
def test_invalid_toml_is_reported_with_its_line(tmp_path: Path, text: str | bytes, title: str) -> None:
    (mistake,) = titles(tmp_path, text, LESSON_KEYS)
    assert title in mistake


@pytest.mark.parametrize(
    ("lines", "key", "problem"),
    [
        ("backends = []", "gpus", "`backends` is empty"),
        ("gpus = 1\nbackends = []", "gpus", "`backends` is empty"),
        ("gpus = 2\nbackends = []", "gpus", "`backends` is empty"),
        ('driver = "missing"', "driver", ""),
        ('gpus = 2\ndriver = "too old"', "driver", ""),
    ],
)
def test_gpus_require_a_backend_and_a_driver(tmp_path: Path, lines: str, key: str, problem: str) -> None:
    (mistake,) = exercise_mistakes(values_of(tmp_path, f"{TWO_SCENARIOS}{lines}\n"))
    assert mistake.key == f"scenario[1].{key}"
    assert problem in mistake.problem
    assert "gpus = 0" in mistake.advice


CONSISTENT = ["gpus = 0\nbackends = []", "gpus = 0", 'backends = ["mps"]', "gpus = 2", 'gpus = 0\ndriver = "missing"']


@pytest.mark.parametrize("lines", CONSISTENT)
def test_consistent_scenarios_are_accepted(tmp_path: Path, lines: str) -> None:
    assert list(exercise_mistakes(values_of(tmp_path, f"{TWO_SCENARIOS}{lines}\n"))) == []


scalars = st.one_of(
    st.integers(), st.booleans(), st.floats(), st.sampled_from(["cuda", "twice", "function", "", "\x1b", "é"])
)
names = st.one_of(
    st.sampled_from([key.name for key in EXERCISE_KEYS] + ["name", "gpus", "wall_s", "backends"]), st.text(max_size=5)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)


def as_toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + "".join(f"\\U{ord(letter):08x}" for letter in value) + '"'
        case list():
            return "[" + ", ".join(map(as_toml, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{as_toml(str(key))} = {as_toml(inner)}" for key, inner in value.items()) + "}"
        case _:
            return repr(value)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(document=st.dictionaries(names, values, max_size=8), good=st.booleans())
def test_any_document_is_read_or_reported(tmp_path: Path, document: dict[str, object], good: bool) -> None:
    kept = [] if not good else [line for line in GOOD.splitlines() if line.partition(" ")[0] not in document]
    text = "\n".join([*kept, *(f"{as_toml(key)} = {as_toml(value)}" for key, value in document.items())])
    manifest = manifest_of(tmp_path, text)
    if not manifest.mistakes:
        assert len(manifest.values) == len(EXERCISE_KEYS)
        [Scenario(**scenario) for scenario in manifest.values["scenario"]]
        Limits(**manifest.values["limits"])
    list(exercise_mistakes(manifest.values))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_reported(tmp_path: Path, content: bytes) -> None:
    assert manifest_of(tmp_path, content, LESSON_KEYS).mistakes
