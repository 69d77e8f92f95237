"""The report on a submission: one outcome, a verdict per check, a run per scenario. Plain data with one JSON form."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from dataclasses import fields as dataclass_fields
from enum import StrEnum
from typing import Any, TypeVar

SCHEMA_VERSION = 1

Built = TypeVar("Built")


class Outcome(StrEnum):
    """One word on a submission."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"
    TOO_SLOW = "too slow"
    INCONCLUSIVE = "inconclusive"
    NEEDS_REVIEW = "needs review"
    NOT_GRADABLE_HERE = "not gradable here"
    REJECTED = "rejected"
    INTERNAL_ERROR = "internal error"

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self]


_EXIT_CODES = {
    Outcome.PASSED: 0,
    Outcome.FAILED: 1,
    Outcome.ERROR: 1,
    Outcome.TIMEOUT: 1,
    Outcome.OUT_OF_MEMORY: 1,
    Outcome.CRASHED: 1,
    Outcome.TOO_SLOW: 1,
    Outcome.REJECTED: 2,
    Outcome.INCONCLUSIVE: 3,
    Outcome.NEEDS_REVIEW: 3,
    Outcome.NOT_GRADABLE_HERE: 3,
    Outcome.INTERNAL_ERROR: 4,
}


class Status(StrEnum):
    """What a check said."""

    PASSED = "passed"
    FAILED = "failed"
    TOO_SLOW = "too slow"
    """Right, but slower than the author allows."""
    INCONCLUSIVE = "inconclusive"
    """It measured, and the machine was too noisy to tell: never a pass, never a failure."""
    NEEDS_REVIEW = "needs review"
    """Figures that do not fit each other: a person has to look. Never a pass, never an accusation."""
    NOT_RUN = "not run"
    """Something that it depends on broke first."""


@dataclass(frozen=True)
class Verdict:
    """One check's answer in one scenario. All texts are plain text, never markup."""

    check: str
    """The check's name, such as `placement`; `loads` and `runs` are the grader's own."""
    sentence: str
    """What must be true: "Every output lives on cuda:0"."""
    status: Status
    scenario: str
    expected: str = ""
    got: str = ""
    line: int | None = None
    """The line of the learner's file that the failure points at, from 1."""
    why: str = ""
    advice: str = ""
    """What to try."""


@dataclass(frozen=True)
class RunSummary:
    """What can be told of one run: where it ran, and what it printed."""

    scenario: str
    device: str
    """For people: "cuda:0, virtual T4"."""
    virtual: bool
    """True when the device was the virtual GPU."""
    output: str = ""
    """What the submission printed (stdout and stderr), bounded. Plain text from the learner."""
    output_dropped_bytes: int = 0
    traceback: str = ""
    """The learner's frames of an exception, empty when there was none."""
    kernels: int = 0
    transfers: int = 0
    synchronisations: int = 0


@dataclass(frozen=True)
class Environment:
    """Where and how the grading was done."""

    gpututor: str
    torch: str
    python: str
    platform: str
    isolation: str
    seed: int


@dataclass(frozen=True)
class Report:
    """Everything that is kept of one grading."""

    exercise: str
    """The exercise's key, `lesson/exercise`."""
    outcome: Outcome
    verdicts: tuple[Verdict, ...]
    runs: tuple[RunSummary, ...]
    environment: Environment
    submission_sha256: str
    started_at: str
    """ISO 8601, UTC."""
    elapsed_s: float
    reason: str = ""
    """For `not gradable here`, `rejected` and `internal error`: why, and what would do."""
    schema_version: int = field(default=SCHEMA_VERSION)

    @property
    def device(self) -> str:
        """The devices that were used, for people."""
        return "; ".join(dict.fromkeys(run.device for run in self.runs)) or "none"

    @property
    def first_failure(self) -> Verdict | None:
        return next((verdict for verdict in self.verdicts if verdict.status is Status.FAILED), None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Report:
        """Read what `to_json` wrote. Raises `ValueError` that names what is wrong."""
        fields = _object(data, "the report")
        if fields.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(
                f"schema_version is {fields.get('schema_version')!r}, this gpututor reads {SCHEMA_VERSION}"
            )
        return _build(
            cls,
            {
                **fields,
                "outcome": Outcome(str(fields.get("outcome"))),
                "verdicts": tuple(verdict_from_json(item) for item in _list(fields, "verdicts")),
                "runs": tuple(_build(RunSummary, _object(item, "a run")) for item in _list(fields, "runs")),
                "environment": _build(Environment, _object(fields.get("environment"), "environment")),
            },
        )


def verdict_from_json(data: object) -> Verdict:
    fields = _object(data, "a verdict")
    return _build(Verdict, {**fields, "status": Status(str(fields.get("status")))})


def _object(data: object, what: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ValueError(f"{what} must be an object")
    return data


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    value = fields.get(name)
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} must be a list")
    return list(value)


_JSON_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": (int, float),
    "int | None": (int, type(None)),
}


def _build(kind: type[Built], fields: dict[str, Any]) -> Built:
    """A `kind` from `fields`, with the plain fields' types looked at."""
    declared = {declaration.name: str(declaration.type) for declaration in dataclass_fields(kind)}  # type: ignore[arg-type]
    for name, value in fields.items():
        if name not in declared:
            raise ValueError(f"{kind.__name__} has no field {name!r}")
        wanted = _JSON_TYPES.get(declared[name])
        if wanted is not None and (not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool)):
            raise ValueError(f"{kind.__name__}.{name} must be {declared[name]}, not {type(value).__name__}")
    try:
        return kind(**fields)
    except TypeError as error:
        raise ValueError(str(error)) from error
