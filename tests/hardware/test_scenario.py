"""Scenarios: each field is a documented manifest key that the worker obeys."""

from __future__ import annotations

import json
import re
from dataclasses import fields

import pytest

from gpututor.course.loader import SCENARIO_KEYS
from gpututor.hardware.scenario import Scenario
from gpututor.protocol.messages import MachineSpec
from gpututor.toml_schema import REQUIRED
from tests.support import ROOT

FIELDS = {field.name: field for field in fields(Scenario)}
UNUSUAL = Scenario("two", 2, ("cuda", "xpu"), "H100", 64, "missing")


def test_every_field_is_a_manifest_key_with_the_same_default() -> None:
    assert {key.name for key in SCENARIO_KEYS} == set(FIELDS)
    for key in SCENARIO_KEYS:
        if key.default is not REQUIRED:
            assert key.default == getattr(Scenario("any"), key.name)


def test_the_keys_are_those_that_are_documented_for_authors() -> None:
    page = (ROOT / "docs" / "authors" / "README.md").read_text(encoding="utf-8")
    example = page.partition("[[scenario]]")[2].partition("[limits]")[0]
    assert set(re.findall(r"^(?:# )?(\w+) = ", example, re.MULTILINE)) == set(FIELDS)


def test_a_scenario_survives_the_trip_to_the_worker() -> None:
    spec = MachineSpec(UNUSUAL, "virtual", 0)
    assert MachineSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "name"])
def test_the_virtual_machine_obeys_every_field(name: str) -> None:
    source = (ROOT / "gpututor" / "worker" / "machine.py").read_text(encoding="utf-8")
    assert f"scenario.{name}" in source
