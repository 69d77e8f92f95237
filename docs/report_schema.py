"""The JSON schema of reports, made from their dataclasses: `gpututor/grading/report.schema.json`.

`python docs/report_schema.py` prints it; a test compares the file with it.
"""

from __future__ import annotations

import ast
import inspect
import json
import types
from dataclasses import is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Literal, Union, cast, get_args, get_origin

from gpututor.grading import report as reports
from gpututor.grading.report import SCHEMA_VERSION, Outcome, Report, Status
from gpututor.json_dataclasses import hints

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}

_BOUNDS: dict[tuple[str, str], dict[str, Any]] = {
    ("Report", "schema_version"): {"const": SCHEMA_VERSION},
    ("Report", "of"): {"minimum": 0},
    ("Report", "points"): {"minimum": 0},
    ("Verdict", "of"): {"minimum": 0},
    ("Verdict", "points"): {"minimum": 0},
}
"""Rules of the constructors, which types do not express."""


def report_schema() -> dict[str, Any]:
    """Return the schema of a whole report, JSON Schema draft 2020-12."""
    definitions: dict[str, Any] = {}
    _object(Report, definitions)
    whole = definitions.pop("Report")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"The report on a submission, version {SCHEMA_VERSION}",
        **whole,
        "allOf": _rules(),
        "$defs": dict(sorted(definitions.items())),
    }


def _rules() -> list[dict[str, Any]]:
    """Return the rules that tie the outcome to verdicts, suspicions and `final`."""
    unjudged = [outcome.value for outcome in Outcome if not outcome.is_of_the_submission]
    open_question = {"properties": {"status": {"enum": [Status.INCONCLUSIVE.value, Status.NEEDS_REVIEW.value]}}}
    not_final = {"properties": {"final": {"const": False}}}
    passed: dict[str, Any] = {"status": {"const": Status.PASSED.value}}
    return [
        {
            "if": {"properties": {"outcome": {"const": Outcome.PASSED.value}}},
            "then": {
                "properties": {
                    "verdicts": {"items": {"properties": passed}},
                    "suspicions": {"maxItems": 0},
                    "final": {"const": True},
                }
            },
        },
        {"if": {"properties": {"outcome": {"enum": unjudged}}}, "then": not_final},
        {"if": {"properties": {"verdicts": {"contains": open_question}}}, "then": not_final},
        {"if": {"properties": {"suspicions": {"minItems": 1}}}, "then": not_final},
    ]


def _object(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a reference to the definition of a dataclass, which is added to `definitions` if missing."""
    if kind.__name__ not in definitions:
        docstrings = _docstrings()
        properties: dict[str, Any] = {}
        definitions[kind.__name__] = {
            "description": _paragraph(inspect.getdoc(kind) or ""),
            "type": "object",
            "additionalProperties": False,
            "required": list(hints(kind)),
            "properties": properties,
        }
        for name, wanted in hints(kind).items():
            words = docstrings.get((kind.__name__, name))
            properties[name] = {
                **({"description": words} if words else {}),
                **_schema(wanted, definitions),
                **_BOUNDS.get((kind.__name__, name), {}),
            }
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _schema(wanted: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):  # only `X | None`
        return {"type": [_PLAIN[arguments[0]], "null"]}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if is_dataclass(wanted):
        return _object(cast("type", wanted), definitions)
    if issubclass(wanted, Enum):
        return {"enum": [member.value for member in wanted]}
    return {"type": _PLAIN[wanted]}


@lru_cache
def _docstrings() -> dict[tuple[str, str], str]:
    """Return the string below each field of each class of the report, by class and field."""
    texts = {}
    for class_ in ast.parse(inspect.getsource(reports)).body:
        if not isinstance(class_, ast.ClassDef):
            continue
        for field, below in zip(class_.body, class_.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match below:
                    case ast.Expr(ast.Constant(str() as text)):
                        texts[class_.name, field.target.id] = " ".join(text.replace("`", "").split())
    return texts


def _paragraph(docstring: str) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join(docstring.partition("\n\n")[0].split())


if __name__ == "__main__":
    print(json.dumps(report_schema(), indent=2, ensure_ascii=False))
