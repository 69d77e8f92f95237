"""A big class is read, graded and reported on: nothing is lost, and nothing counts twice.

It is graded twice with the same secret: undisturbed, and in another layout while judges and whole runs are killed.
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
from tests.support.big_class_assertions import check_graded_alike, check_read
from tests.support.big_class_layouts import lay_out
from tests.support.class_gradings import grading, kill_one_below, output_of, wait_for

FEW, MANY = 120, 300
KILLED_AFTER = 10, 30
"""Gradings between two killed judges."""
ALL_KILLED_EVERY = 3
"""Killed judges, after which the whole run is killed."""


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> BigClass:
    made = big_class(tmp_path_factory.mktemp("few") / "course", FEW)
    assert Counter(each.kind for each in made.submissions).keys() == KINDS.keys()
    assert any(each.attempt > 1 for each in made.submissions)
    assert made.zipped
    return made


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_has_every_file(few: BigClass, layout: str, tmp_path: Path) -> None:
    class_ = read_class(lay_out(few, layout, tmp_path / "in"), few.course, ClassFolder(tmp_path / "out"))
    assert class_.layout == layout
    check_read(class_, few)


def grade_and_kill(source: Path, folder: ClassFolder, options: Sequence[str]) -> Counter[str]:
    """Grade to the end while killing; return the numbers of killed judges and runs."""
    chance, killed = random.Random(8), Counter[str]()
    while True:
        with grading(source, folder, *options, "--resume") as process:
            for _ in range(ALL_KILLED_EVERY):
                # Wait for progress between two kills, so that a slow machine gets on.
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
def test_kills_change_no_result(tmp_path: Path) -> None:
    big = big_class(tmp_path / "course", MANY)
    secret = tmp_path / "class.secret"
    secret.write_text(f"{SECRET}\n")
    options = ["--course", str(big.course.folder), "--secret", str(secret), "--isolation", "bubblewrap"]
    undisturbed, disturbed = ClassFolder(tmp_path / "undisturbed"), ClassFolder(tmp_path / "disturbed")
    undisturbed.folder.mkdir()
    disturbed.folder.mkdir()

    with grading(lay_out(big, "folders", tmp_path / "in folders"), undisturbed, *options) as process:
        assert process.wait() == 0, output_of(undisturbed).read_text()
    killed = grade_and_kill(lay_out(big, "canvas", tmp_path / "in canvas"), disturbed, options)

    assert killed["judges"] >= 6
    assert killed["all"] >= 2
    check_graded_alike(big, undisturbed, disturbed)
