"""The GPU that costs least for the whole job, its hours and its price."""

from __future__ import annotations

from typing import Any

from gpututor.checks import value


def expected(drawn: dict[str, Any], machine: Any) -> dict[str, Any] | None:
    """The answer by the roofline, among the GPUs that will do."""
    job = drawn["job"]
    options = []
    for gpu in drawn["gpus"]:
        step_s = max(job["flops"] / gpu["peak_flops"], job["bytes"] / gpu["bandwidth"])
        hours = job["steps"] * step_s / job["efficiency"] / 3600
        if gpu["memory_bytes"] >= job["memory_bytes"] and hours <= job["deadline_hours"]:
            options.append((hours * gpu["dollars_per_hour"], hours, gpu["name"]))
    if not options:
        return None
    dollars, hours, name = min(options)
    return {"name": name, "hours": hours, "dollars": dollars}


checks = [
    value(
        expected,
        why="A slow GPU at a low price may cost more in the end, and a fast GPU may just wait for its memory.",
        advice="Take the longer of the two times, divide by the efficiency, and compare the prices of the whole job.",
    ),
]
