"""A part of the big class by Ray on two nodes, one of which is killed in the middle: all is as by one machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpututor.classroom.folder import ClassFolder
from tests.support.big_class import SECRET, big_class
from tests.support.big_class_assertions import (
    both_come_to_the_same,
    everything_comes_to_what_it_must,
    nothing_is_lost,
    the_gradebook_has_everything_once,
)
from tests.support.big_class_layouts import lay_out
from tests.support.class_gradings import grading, output_of, wait_for
from tests.support.ray_nodes import two_nodes

SUBMISSIONS = 200
KILLED_AFTER = 60
"""Gradings."""


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_node_that_is_killed_costs_a_big_class_nothing(tmp_path: Path) -> None:
    big = big_class(tmp_path / "course", SUBMISSIONS)
    secret = tmp_path / "class.secret"
    secret.write_text(f"{SECRET}\n")
    options = ["--course", str(big.course.folder), "--secret", str(secret)]
    handed_in = lay_out(big, "folders", tmp_path / "in")
    by_one, by_nodes = ClassFolder(tmp_path / "by one"), ClassFolder(tmp_path / "by nodes")
    by_one.folder.mkdir()
    by_nodes.folder.mkdir()

    with grading(handed_in, by_one, *options) as process:
        assert process.wait() == 0, output_of(by_one).read_text()
    with (
        two_nodes() as nodes,
        grading(handed_in, by_nodes, *options, "--executor", "ray", "--address", nodes.address) as process,
    ):
        assert wait_for(process, by_nodes, KILLED_AFTER), output_of(by_nodes).read_text()
        nodes.kill_second()
        assert process.wait() == 0, output_of(by_nodes).read_text()

    assert "is gone: what it had in hand is graded elsewhere." in output_of(by_nodes).read_text()
    for folder in (by_one, by_nodes):
        nothing_is_lost(folder, big)
        everything_comes_to_what_it_must(folder, big)
        the_gradebook_has_everything_once(folder, big)
    both_come_to_the_same(by_one, by_nodes, big)
