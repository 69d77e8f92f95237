"""The cache of parsed manifests: never stale, never in the way."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gpututor.course import manifest_cache
from gpututor.course.loader import load_course
from gpututor.paths import manifest_cache_file
from tests.support.tiny_course import append, write_course


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUTUTOR_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_course(tmp_path / "course", exercises=3, lessons=1)


@pytest.fixture
def parsed(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which each text is added that is parsed."""
    texts: list[str] = []

    def parse(text: str) -> dict[str, Any]:
        texts.append(text)
        return tomllib.loads(text)

    monkeypatch.setattr(manifest_cache, "parse_toml", parse)
    return texts


def test_only_a_manifest_with_another_text_is_parsed_again(folder: Path, parsed: list[str]) -> None:
    course = load_course(folder)
    assert (len(parsed), course.problems) == (5, ())
    assert load_course(folder) == course
    assert len(parsed) == 5
    manifest = course.exercises[1].folder / "exercise.toml"
    before, text = manifest.stat(), manifest.read_text()
    manifest.write_text(text.replace("Twice 2", "Thrice2"))
    os.utime(manifest, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert manifest.stat().st_size == before.st_size
    assert [exercise.title for exercise in load_course(folder).exercises] == ["Twice 1", "Thrice2", "Twice 3"]
    assert len(parsed) == 6


@pytest.mark.parametrize("content", ["", "{", "[1]", '"text"', '{"id = 1": 3}', "[" * 100_000, b"\xff"])
def test_a_broken_cache_is_replaced(folder: Path, parsed: list[str], content: str | bytes) -> None:
    course = load_course(folder)
    manifest_cache_file().write_bytes(content if isinstance(content, bytes) else content.encode())
    assert load_course(folder) == course
    assert len(json.loads(manifest_cache_file().read_text())) == 5
    del parsed[:]
    assert load_course(folder) == course
    assert parsed == []


def test_a_document_that_is_no_dictionary_is_parsed_again(folder: Path, parsed: list[str]) -> None:
    course = load_course(folder)
    manifest_cache_file().write_text(json.dumps({text: [1] for text in parsed}))
    assert load_course(folder) == course
    assert len(parsed) == 10


def test_a_course_loads_without_a_folder_for_the_cache(folder: Path, home: Path) -> None:
    home.write_text("in the way")
    course = load_course(folder)
    assert (len(course.exercises), course.problems) == (3, ())


def test_a_manifest_with_a_date_is_reported_each_time_and_never_cached(folder: Path, parsed: list[str]) -> None:
    append(folder / "course.toml", "since = 2026-03-01\n")
    for _ in range(2):
        (problem,) = load_course(folder).problems
        assert problem.title == f"{folder / 'course.toml'}: since: unknown key"
    assert len(json.loads(manifest_cache_file().read_text())) == 4
