"""List submissions that an instructor should look at, with commands. An item does not mean that a student did wrong.

OUT is the folder that `classroom grade` made. The list has: odd figures or code; times below what the device can reach,
or far below the class's; inconclusive timings; failed gradings; identical or similar texts of different students;
rejected files; and files without an owner or an exercise.

Texts are compared in two ways: by fingerprints of their code, and by their own names and comments. Fingerprints ignore
names, literals, comments and blank space. Code of the course and code that many students share do not count. If little
else is left, only names and comments are compared. docs/classroom/README.md explains the percentages.

--json prints one object:
  schema_version  1
  similar         least share of common fingerprints of similar texts
  fewest          least number of own fingerprints of a compared text
  items           [{kind, exercise, label, students, files, source, why, command}]
                  kind is "needs review", "unusual speed", "inconclusive", "internal error", "identical", "alike",
                  "refused", "no exercise" (of a student who lacks an exercise) or "unmatched"
      files       [{student, called (with their name), source, attempt, submission (the file's path in OUT; null for a
                    rejected file)}]
  pairs           [{exercise, label, students, other_students, per_cent, code, words, shared_words, files}], the most
                  similar first; code and words are null or {common, of}; files are paths in OUT
  compared        [{exercise, label, texts, compared, compared_words, fingerprints, common, solutions}]: each exercise
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
from gpututor.classroom.review.build import Compared
from gpututor.classroom.review.similarity import FEWEST, SimilarPair
from gpututor.classroom.review.terminal import lines_of, sides_of
from gpututor.classroom.rules import rules_for
from gpututor.classroom.tables import csv_text
from gpututor.cli.classroom import add_class_arguments, add_pseudonyms_argument
from gpututor.cli.classroom.report import print_notices
from gpututor.text import escape_control_chars

SCHEMA_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_class_arguments(parser)
    add_pseudonyms_argument(parser)
    similar_help = f"least share of common fingerprints of similar texts: above 0, at most 1 ({SHARE:g})"
    parser.add_argument("--similar", metavar="SHARE", type=_share, default=SHARE, help=similar_help)
    parser.add_argument("--csv", metavar="FILE", type=Path, help="also write the list as a table")
    parser.add_argument(
        "--csv-pairs", metavar="FILE", type=Path, help="also write the pairs of similar texts as a table"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, described above")


def main(arguments: argparse.Namespace) -> int:
    folder = ClassFolder(arguments.out)
    rules = rules_for(folder, arguments.rules)
    gradebook = make_gradebook(folder, rules, arguments.course, with_names=not arguments.pseudonyms)
    review = review_of(folder, gradebook, arguments.similar)
    tables = [(arguments.csv, _rows(review)), (arguments.csv_pairs, _pair_rows(review, folder))]
    written = [(path, rows) for path, rows in tables if path is not None]
    for path, _ in written:
        folder.check_output(path)
    for path, rows in written:
        write_text(path, csv_text(rows))
    if arguments.json:
        print(json.dumps(_as_json(review, folder), indent=2))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 120
        print("\n".join(lines_of(review, width)))
    for path, _ in written:
        print(f"Written: {escape_control_chars(str(path))}", file=sys.stderr if arguments.json else sys.stdout)
    print_notices(review.notices)
    return 0


def _rows(review: Review) -> Iterator[list[str]]:
    yield ["kind", "exercise", "students", "sources", "why", "command"]
    for item in review.items:
        students = map(review.called, item.students)
        sources = [file.source for file in item.files] or [item.source]
        yield [item.kind.value, item.exercise, "; ".join(students), "; ".join(sources), item.why, item.command]


def _pair_rows(review: Review, folder: ClassFolder) -> Iterator[list[str]]:
    yield [
        *("exercise", "students", "other_students", "per_cent", "code_common", "code_of", "words_common", "words_of"),
        *("shared_words", "file", "other_file"),
    ]
    for compared, pair in review.pairs:
        students = ["; ".join(map(review.called, side)) for side in sides_of(pair)]
        shares = [
            str(figure) if figure is not None else ""
            for share in (pair.code, pair.words)
            for figure in ((share.common, share.of) if share is not None else (None, None))
        ]
        files = [str(folder.submission(text.sha256)) for text in pair.texts]
        yield [compared.exercise, *students, f"{pair.share:.0%}", *shares, "; ".join(pair.shared_words), *files]


def _pair(compared: Compared, pair: SimilarPair, folder: ClassFolder) -> dict[str, Any]:
    students, others = sides_of(pair)
    return {
        "exercise": compared.exercise,
        "label": compared.label,
        "students": list(students),
        "other_students": list(others),
        "per_cent": round(100 * pair.share),
        "code": asdict(pair.code) if pair.code is not None else None,
        "words": asdict(pair.words) if pair.words is not None else None,
        "shared_words": list(pair.shared_words),
        "files": [str(folder.submission(text.sha256)) for text in pair.texts],
    }


def _counts(compared: Compared) -> dict[str, Any]:
    return {name: value for name, value in vars(compared).items() if name != "pairs"}


def _as_json(review: Review, folder: ClassFolder) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "similar": review.share,
        "fewest": FEWEST,
        "items": [_item(item, review, folder) for item in review.items],
        "pairs": [_pair(compared, pair, folder) for compared, pair in review.pairs],
        "compared": [_counts(compared) for compared in review.compared],
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
        raise argparse.ArgumentTypeError("a share is a number above 0 and at most 1, such as 0.8")
    return share
