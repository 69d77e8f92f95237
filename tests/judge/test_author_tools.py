"""The audit of an exercise names inputs and tolerances that are not sound, with the case."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpututor.authoring.scaffold import make_exercise
from gpututor.judge.author_tools import audit_exercise

SEEDED = "torch.Generator().manual_seed(seed * 10 + case)"


@pytest.fixture(scope="module")
def exercise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_exercise(tmp_path_factory.mktemp("courses") / "course", "lesson/product").exercise


def audit_with(exercise: Path, old: str, new: str) -> dict[str, object]:
    """Return the audit of the skeleton with another `draw`."""
    given = exercise / "given.py"
    before = given.read_text()
    assert old in before
    given.write_text(before.replace(old, new))
    try:
        return audit_exercise(exercise)
    finally:
        given.write_text(before)


@pytest.mark.parametrize(
    ("old", "new", "unsteady", "fixed"),
    [
        (SEEDED, SEEDED, [], []),
        (SEEDED, "torch.Generator()", [], [0, 1, 2]),
        (SEEDED, "torch.Generator().manual_seed(case)", [], [0, 1, 2]),
        (SEEDED, "torch.Generator().manual_seed(seed if case else 1)", [], [0]),
        (f"chance = {SEEDED}", "chance = torch.Generator(); chance.seed()", [0, 1, 2], []),
        ("    return {", "    return {'seed': 7} if True else {", [], [0, 1, 2]),
        ("    return {", "    return {'index': seed if case == 1 else 0} if True else {", [], []),
        ("    return {", "    return {} if True else {", [], []),
    ],
    ids=["seeded", "unseeded", "case alone", "one case", "unsteady", "plain", "one plain value varies", "no inputs"],
)
def test_inputs_must_depend_on_the_seed_only(
    exercise: Path, old: str, new: str, unsteady: list[int], fixed: list[int]
) -> None:
    report = audit_with(exercise, old, new)
    assert (report["unsteady"], report["fixed"]) == (unsteady, fixed)


def test_a_weak_tolerance_is_reported_once_with_its_case(exercise: Path) -> None:
    checks = exercise / "checks.py"
    before = checks.read_text()
    checks.write_text(before.replace("parity(reference,", "parity(reference, inside=torch.bfloat16, times=20.0,"))
    try:
        weak = audit_exercise(exercise)["weak"]
    finally:
        checks.write_text(before)
    assert isinstance(weak, list)
    kinds = [sentence.partition(" is only ")[0].partition(" would be ")[0] for sentence in weak]
    assert weak
    assert len(kinds) == len(set(kinds))
    assert all("Case " in sentence for sentence in weak if "times off" in sentence)
