"""Each hostile file ends as it should, and nothing of it stays; honest ones beside them pass."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from gpututor.grading.client import GradingClient
from gpututor.grading.events import GradingCancelled
from gpututor.grading.report import Outcome, Report
from tests.hostile.ground import Ground, opened
from tests.hostile.members import HONEST, KINDS, Member, members

ALL = members()
ALWAYS = {
    "forged": ("frames_everywhere", "replays_its_bytes"),
    "patched": ("allclose", "recorder_code"),
    "stealing": ("frames", "secrets_on_disk", "network"),
    "fake": ("cached_by_shape", "half_inside", "lazy_list", "lying_class"),
    "resources": ("forks", "daemon", "segfault", "stops_itself", "many_files"),
    "text": ("terminal_escapes", "exception_that_bites", "shadows_torch"),
    "honest": ("thread_pool", "child_process", "default_device_kept"),
}
"""Files of each kind that are not left to the long tests. The first runs in every isolation, the others in the last."""


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with opened(tmp_path_factory.mktemp("ground")) as ground:
        yield ground


def in_words(report: Report) -> str:
    """Return outcome, verdicts and output of a report for the failure message."""
    lines = [f"{report.outcome} {report.reason}"]
    lines += [
        f"{verdict.scenario}: {verdict.check}: {verdict.status}; {verdict.expected}; {verdict.got}"
        for verdict in report.verdicts
    ]
    return "\n".join([*lines, *(run.output[:2000] for run in report.runs)])


def is_quick(member: Member, isolation: str) -> bool:
    always = ALWAYS[member.kind]
    return member.name == always[0] or (member.name in always and isolation == member.isolations[-1])


def cases() -> list[object]:
    """(member, isolation) of every grading."""
    return [
        pytest.param(
            member,
            isolation,
            id=f"{member.id}-{isolation}",
            marks=[pytest.mark.isolation] * (isolation == "bubblewrap")
            + [pytest.mark.long] * (not is_quick(member, isolation)),
        )
        for member in ALL
        for isolation in member.isolations
    ]


@pytest.mark.parametrize(("member", "isolation"), cases())
def test_a_file_ends_as_it_should_and_leaves_nothing_behind(member: Member, isolation: str, ground: Ground) -> None:
    ground.client(isolation)
    judge, before = ground.judge(isolation), ground.touched()

    report = ground.grade(member, isolation)

    assert (report.outcome in member.ends) is (not member.open), in_words(report)
    assert report.environment.isolation == isolation
    assert not ground.leaked(report)
    assert ground.outlived(isolation) == []
    assert ground.touched() == before
    assert not ground.was_reached()
    if member.kind in ("forged", "patched", "resources"):
        assert ground.honest(isolation).outcome is Outcome.PASSED
    assert ground.judge(isolation) == judge, "the judge had to be started again"


def test_hostile_files_may_not_pass_and_honest_ones_must() -> None:
    for member in ALL:
        assert (member.ends == {Outcome.PASSED}) if member.kind == HONEST else Outcome.PASSED not in member.ends


def test_every_kind_has_several_members_and_there_are_enough() -> None:
    of_kind = {kind: [member for member in ALL if member.kind == kind] for kind in KINDS}
    assert all(len(group) >= 8 for group in of_kind.values())
    assert sum(len(group) for kind, group in of_kind.items() if kind != HONEST) >= 60
    assert all({member.name for member in group} >= set(ALWAYS[kind]) for kind, group in of_kind.items())
    assert all(member.kind in ("forged", "patched", "fake") for member in ALL if member.open)


def test_a_judge_that_hung_is_used_no_more(tmp_path: Path) -> None:
    hung = Mock(spec=GradingClient)
    hung.grade.return_value = iter([GradingCancelled()])
    with socket.socket() as listener:
        ground = Ground(tmp_path, "", {}, tmp_path, listener, _clients={"process": hung}, _traces=set())
        with pytest.raises(AssertionError, match="still at it"):
            ground.grade_text("", tmp_path, "process")
    assert ground._clients == {}
    hung.close.assert_called_once_with()
