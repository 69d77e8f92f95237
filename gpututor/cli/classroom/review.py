"""List submissions that an instructor should look at, with commands. An item does not mean that a student did wrong.

OUT is the folder that `classroom grade` made. The list has: odd figures or code; times below what the device can reach,
or far below the class's; inconclusive timings; failed gradings; identical or similar texts of different students;
refused files; and files without an owner or an exercise.

Texts are compared by fingerprints of their tokens: names, literals, comments and blank space make no difference. Code
of the course and code that many students share are excluded; texts that are too short then are not compared.
docs/classroom/README.md explains it.

--json prints one object:
  schema_version  1
  similar         share of common fingerprints from which texts are alike
  fewest          least number of own fingerprints of a compared text
  items           [{kind, exercise, label, students, files, source, why, command}]
                  kind is "needs review", "unusual speed", "inconclusive", "internal error", "identical", "alike",
                  "refused", "no exercise" (of a student who lacks an exercise) or "unmatched"
      files       [{student, called (with their name), source, attempt, submission (the file's path in OUT; null for one
                    that was refused)}]
  compared        [{exercise, label, texts, compared, fingerprints, common, solutions}] for each exercise
  notices         [{title, advice}]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.build import make_gradebook
from gpututor.classroom.gradebook.exports import write_text
from gpututor.classroom.review import SHARE, Item, Review, review_of
from gpututor.classroom.review.build import lines_of
from gpututor.classroom.review.similarity import FEWEST
from gpututor.classroom.rules import rules_for
from gpututor.classroom.tables import csv_text
from gpututor.cli.classroom import add_class_arguments, add_pseudonyms_argument
from gpututor.cli.classroom.report import print_notices
from gpututor.text import escape_control_chars

SCHEMA_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_class_arguments(parser)
    add_pseudonyms_argument(parser)
    similar_help = f"share of common fingerprints from which texts are alike: above 0, to 1 ({SHARE:g})"
    parser.add_argument("--similar", metavar="SHARE", type=_share, default=SHARE, help=similar_help)
    parser.add_argument("--csv", metavar="FILE", type=Path, help="also write the list as a table")
    parser.add_argument("--json", action="store_true", help="print one JSON object, described above")


def main(arguments: argparse.Namespace) -> int:
    folder = ClassFolder(arguments.out)
    rules = rules_for(folder, arguments.rules)
    gradebook = make_gradebook(folder, rules, arguments.course, with_names=not arguments.pseudonyms)
    review = review_of(folder, gradebook, arguments.similar)
    if arguments.csv is not None:
        write_text(arguments.csv, csv_text(_rows(review)))
    if arguments.json:
        print(json.dumps(_as_json(review, folder), indent=2))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 120
        print("\n".join(lines_of(review, width)))
    if arguments.csv is not None:
        print(f"Written: {escape_control_chars(str(arguments.csv))}", file=sys.stderr if arguments.json else sys.stdout)
    print_notices(review.notices)
    return 0


def _rows(review: Review) -> Iterator[list[str]]:
    yield ["kind", "exercise", "students", "sources", "why", "command"]
    for item in review.items:
        students = map(review.called, item.students)
        sources = [file.source for file in item.files] or [item.source]
        yield [item.kind.value, item.exercise, "; ".join(students), "; ".join(sources), item.why, item.command]


def _as_json(review: Review, folder: ClassFolder) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "similar": review.share,
        "fewest": FEWEST,
        "items": [_item(item, review, folder) for item in review.items],
        "compared": [asdict(compared) for compared in review.compared],
        "notices": [asdict(notice) for notice in review.notices],
    }


def _item(item: Item, review: Review, folder: ClassFolder) -> dict[str, Any]:
    return {
        "kind": item.kind.value,
        "exercise": item.exercise,
        "label": item.label,
        "students": list(item.students),
        "files": [
            {
                "student": file.student,
                "called": review.called(file.student),
                "source": file.source,
                "attempt": file.attempt,
                "submission": None if file.refusal else str(folder.submission(file.sha256)),
            }
            for file in item.files
        ],
        "source": item.source,
        "why": item.why,
        "command": item.command,
    }


def _share(word: str) -> float:
    try:
        share = float(word)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError("a share is a number above 0, to 1, such as 0.8")
    return share
