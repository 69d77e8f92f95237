"""Reading the reports that are kept, also those that an older gpututor wrote."""

from __future__ import annotations

import json
from typing import Any

from gpututor.grading.report import Outcome, Report

_SINCE_2: dict[str, dict[str, Any]] = {
    "verdicts": {"points": 0.0, "of": 0.0, "measured": ""},
    "runs": {"times": "", "placement": ""},
    "environment": {"driver": "", "workers": ""},
}
"""Keys that version 2 added, by the part of the report, with what stands for "nobody wrote it down"."""


def read_record(text: str) -> Report:
    """The report that was kept as `text`. Raises `ValueError` for what no gpututor up to this one wrote."""
    data = json.loads(text)
    if isinstance(data, dict) and data.get("schema_version") == 1:
        data = _from_version_1(data)
    return Report.from_json(data)


def _from_version_1(data: dict[str, Any]) -> dict[str, Any]:
    def widened(part: Any, name: str) -> Any:
        return {**_SINCE_2[name], **part} if isinstance(part, dict) else part

    parts = {name: data.get(name) for name in _SINCE_2}
    for name, part in parts.items():
        parts[name] = [widened(item, name) for item in part] if isinstance(part, list) else widened(part, name)
    outcome = data.get("outcome")
    final = outcome in list(Outcome) and Outcome(outcome).is_of_the_submission
    since = {"schema_version": 2, "waited_s": 0.0, "suspicions": [], "points": 0.0, "of": 0.0}
    return {**data, **parts, **since, "final": final}
