"""A big class is read, graded and reported on: nothing is lost, nothing counts twice, and all comes to what it must.

It is graded twice with the same secret: on a machine where nothing happens, and in another layout on one where judges
are killed all the time and the whole is killed again and again.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.intake import LAYOUTS, read_class
from tests.support.big_class import KINDS, SECRET, BigClass, big_class
from tests.support.big_class_assertions import (
    both_come_to_the_same,
    everything_comes_to_what_it_must,
    must_be_whole,
    nothing_is_lost,
    the_gradebook_has_everything_once,
)
from tests.support.big_class_layouts import lay_out
from tests.support.class_gradings import grading, kill_one_below, output_of, wait_for

FEW, MANY = 120, 300
KILLED_AFTER = 10, 30
"""Gradings, between one judge that is killed and the next."""
ALL_KILLED_EVERY = 3
"""Each time after so many judges, the whole is killed."""


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> BigClass:
    return big_class(tmp_path_factory.mktemp("few") / "course", FEW)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_file_is_found_in_every_layout(few: BigClass, layout: str, tmp_path: Path) -> None:
    found = read_class(lay_out(few, layout, tmp_path / "in"), few.course, ClassFolder(tmp_path / "out"))
    assert found.layout == layout
    must_be_whole(found, few)


def test_the_class_is_the_same_each_time_and_has_something_of_everything(few: BigClass, tmp_path: Path) -> None:
    again = big_class(tmp_path / "course", FEW)
    assert [(one.who, one.content) for one in again.submissions] == [(one.who, one.content) for one in few.submissions]
    assert again.zipped == few.zipped != frozenset()
    assert Counter(one.kind for one in few.submissions).keys() == KINDS.keys()
    assert any(one.attempt > 1 for one in few.submissions)


def grade_and_kill(handed_in: Path, folder: ClassFolder, options: Sequence[str]) -> Counter[str]:
    """Until it is done. How many of what were killed."""
    chance, killed = random.Random(8), Counter[str]()
    while True:
        with grading(handed_in, folder, *options, "--resume") as process:
            for _ in range(ALL_KILLED_EVERY):
                # On with the next when some more are done: a machine that is slow is not killed to death.
                if not wait_for(process, folder, chance.randint(*KILLED_AFTER)):
                    assert process.returncode == 0, output_of(folder).read_text()
                    return killed
                killed["judges"] += kill_one_below(process, chance)
            process.kill()
            process.wait()
            killed["all"] += 1


@pytest.mark.long
@pytest.mark.isolation
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_whatever_is_killed_a_class_comes_to_the_same(tmp_path: Path) -> None:
    big = big_class(tmp_path / "course", MANY)
    secret = tmp_path / "class.secret"
    secret.write_text(f"{SECRET}\n")
    options = ["--course", str(big.course.folder), "--secret", str(secret), "--isolation", "bubblewrap"]
    undisturbed, disturbed = ClassFolder(tmp_path / "undisturbed"), ClassFolder(tmp_path / "disturbed")
    undisturbed.folder.mkdir()
    disturbed.folder.mkdir()

    with grading(lay_out(big, "folders", tmp_path / "in folders"), undisturbed, *options) as process:
        assert process.wait() == 0, output_of(undisturbed).read_text()
    killed = grade_and_kill(lay_out(big, "canvas", tmp_path / "as from canvas"), disturbed, options)

    assert killed["judges"] >= 6
    assert killed["all"] >= 2
    for folder in (undisturbed, disturbed):
        nothing_is_lost(folder, big)
        everything_comes_to_what_it_must(folder, big)
        the_gradebook_has_everything_once(folder, big)
    both_come_to_the_same(undisturbed, disturbed, big)
