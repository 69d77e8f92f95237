"""Reading `exercise.toml`, `lesson.toml` and `course.toml`: which keys there are, and what is wrong with a file.

A mistake is a `CourseError` that says the file, the key as it would be written (`scenario[1].gpus`, counted from 0),
what was expected there, and the nearest key or word that would have been right.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpututor import paths
from gpututor.course.exercise import BACKENDS, DEVICE_KINDS, Limits, Scenario
from gpututor.course.keys import Key, Mistake, as_error, nearest, text_of, unreadable, values_of
from gpututor.errors import CourseError

_HEADING = re.compile(r'^\["?([^"\]]+)"?\]$', re.MULTILINE)


_ANY_SCENARIO = Scenario("")

SCENARIO_KEYS = (
    Key("name", "line", most=40),
    Key("gpus", "whole", default=_ANY_SCENARIO.gpus, least=0, most=8),
    Key("backends", "choices", default=_ANY_SCENARIO.backends, choices=BACKENDS),
    Key("gpu", "line", default=_ANY_SCENARIO.gpu, most=40),
    Key("memory_mib", "whole", default=None, least=1, most=1024 * 1024),
)
LIMITS_KEYS = (
    Key("wall_s", "number", default=Limits().wall_s, least=0.1, most=600),
    Key("output_kib", "whole", default=Limits().output_kib, least=1, most=1024),
    Key("result_mib", "whole", default=Limits().result_mib, least=1, most=512),
)
EXCUSE_KEYS = (Key("change", "line", most=120), Key("reason", "line", most=300))
EXERCISE_KEYS = (
    Key("title", "line", most=60),
    Key("summary", "line", most=200),
    Key("minutes", "whole", least=1, most=240),
    Key("kind", "choice", choices=("function", "processes", "script")),
    Key("processes", "whole", default=None, least=2, most=8),
    Key("entry", "identifier", default=""),
    Key("cases", "whole", default=3, least=1, most=100),
    Key("devices", "choices", default=("virtual", "cuda"), least=1, choices=DEVICE_KINDS),
    Key("scenario", "tables", default=({"name": "one GPU"},), least=1, most=32, keys=SCENARIO_KEYS),
    Key("limits", "table", default={}, keys=LIMITS_KEYS),
    Key("allowed_names", "lines", default=(), most=60),
    Key("excused_mutant", "tables", default=(), most=40, keys=EXCUSE_KEYS),
)
LESSON_KEYS = (
    Key("title", "line", most=60),
    Key("summary", "line", most=200),
    Key("gpus", "whole", default=1, least=0, most=8),
)
COURSE_KEYS = (
    Key("id", "line", most=60),
    Key("title", "line", most=60),
    Key("for", "choice", default="", choices=("students",)),
)


@dataclass(frozen=True)
class Manifest:
    """What a manifest says, with the defaults filled in, and what is wrong with it."""

    values: dict[str, Any]
    """Only to be relied on when there are no mistakes; a key with a mistake is left out."""
    mistakes: tuple[CourseError, ...]


def read_manifest(path: Path, keys: Sequence[Key]) -> Manifest:
    """Read the file at `path`, of which `keys` are allowed. Never raises for what stands in it."""
    try:
        document = tomllib.loads(text_of(path))
    except (OSError, ValueError, RecursionError) as error:
        return Manifest({}, (unreadable(path, error),))
    mistakes: list[Mistake] = []
    values = values_of(document, keys, mistakes)
    return Manifest(values, tuple(as_error(path, mistake) for mistake in mistakes))


def exercise_mistakes(values: dict[str, Any]) -> Iterator[Mistake]:
    """What is wrong between the keys of an `exercise.toml` whose keys are right one by one."""
    names = [scenario["name"] for scenario in values.get("scenario", ()) if "name" in scenario]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield Mistake("scenario", f"two scenarios are called {name!r}", "Give each scenario a name of its own.")
    kind, entry = values.get("kind"), values.get("entry")
    if kind in ("function", "script") and values.get("processes"):
        problem = f"a {kind} runs in one process"
        yield Mistake("processes", problem, 'Write kind = "processes", or leave this key out.')
    if kind == "script" and entry:
        yield Mistake("entry", "a script is run as a whole", "Leave this key out.")
    if kind in ("function", "processes") and entry == "":
        yield Mistake("entry", "it is missing: the name of a Python function", 'Add a line `entry = "…"`.')
    for position, scenario in enumerate(values.get("scenario", ())):
        gpu = scenario.get("gpu", _ANY_SCENARIO.gpu)
        if gpu != _ANY_SCENARIO.gpu and (known := gpu_models()) and gpu not in known:
            yield Mistake(f"scenario[{position}].gpu", f"there is no GPU {gpu!r} in gpus.toml", nearest(gpu, known))
        if scenario.get("gpus") and scenario.get("backends") == ():
            problem = f"{scenario['gpus']} here, but no backend would show {'it' if scenario['gpus'] == 1 else 'them'}"
            yield Mistake(f"scenario[{position}].gpus", problem, 'Write gpus = 0, or backends = ["cuda"].')


@cache
def gpu_models() -> tuple[str, ...]:
    """The names of the virtual GPU's models: the headings of the spec file, which as a whole takes 3 ms to read."""
    try:
        text = (paths.PACKAGE / "devices" / "virtual" / "gpus.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ()
    return tuple(_HEADING.findall(text))
