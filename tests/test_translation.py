"""Translations: each sentence of the covered checks has one with the same fields; text of learners stays as it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from gpututor import checks, judge
from gpututor.checks import model
from gpututor.classroom import feedback, gradescope_grading, gradescope_submission
from gpututor.classroom.gradebook import marking
from gpututor.errors import UsageError
from gpututor.grading import report_text
from gpututor.grading.report import Outcome, Status
from gpututor.grading.report_text import OUTCOME_TITLES, mark
from gpututor.translation import LONGEST, catalog, check_fields, entries_of, languages

LANGUAGES = [language for language in languages() if language != "en"]
_CHECKS = (
    *("bounds", "identity", "launches", "memory", "parity", "placement", "speed", "structure", "transfers", "trees"),
    *("value", "work"),
)
COVERED = [
    *(Path(checks.__path__[0]) / f"{name}.py" for name in _CHECKS),
    *(Path(judge.__path__[0]) / name for name in ("failures.py", "verdicts.py")),
    Path(feedback.__file__),
]
"""Modules whose sentences all have translations; docs/classroom/README.md lists the checks."""
ENGLISH_ONLY = (
    "the worker failed during the run",
    "Either your code does something",
    "Do not change the grader's own",
    "Do not use the grader's own",
    "the worker's answer could not",
)
"""Beginnings of sentences about broken workers: a person reviews these, and students never see them."""
NO_SENTENCES = {
    *("out of memory", "rank ended", "rank killed", "rank hangs", "scratch bytes", "scratch files"),
    *("torch.load with map_location", "goes to", "nothing has written", "and so does", "there is no tensor argument"),
}
"""Keys, parts of PyTorch's messages, and an error of a course's author."""
_WORDS = re.compile(r"[a-z]{2,}[,;:]? [a-z]{2,}", re.IGNORECASE)


def entries(language: str) -> dict[str, str]:
    text = (resources.files("gpututor") / "languages" / f"{language}.po").read_text(encoding="utf-8")
    return dict(entries_of(text))


def fragments(path: Path) -> Iterator[str]:
    """Yield the literal parts of sentences in a module, but not of docstrings, keys, and what is for authors only."""
    tree = ast.parse(path.read_text())
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        is_error = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error")
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_warning = isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn"
        if is_error or is_warning or is_text or isinstance(node, ast.Raise | ast.AnnAssign | ast.arg):
            skipped |= set(ast.walk(node)) - ({node} if isinstance(node, ast.AnnAssign) else set())
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            skipped -= set(ast.walk(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            for part in re.split(r"\{\w+\}", node.value):
                if _WORDS.search(part):
                    yield part.strip()


@pytest.mark.parametrize("path", COVERED, ids=lambda path: path.stem)
@pytest.mark.parametrize("language", LANGUAGES)
def test_each_sentence_of_the_covered_modules_has_a_template(path: Path, language: str) -> None:
    sentences = "\n".join(entries(language))
    known = [part for part in fragments(path) if part not in NO_SENTENCES and not part.startswith(ENGLISH_ONLY)]
    assert known
    assert [part for part in known if part not in sentences] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_template_has_a_translation_with_the_same_fields(language: str) -> None:
    for english, words in entries(language).items():
        check_fields(english, words)
        assert words.strip(), english


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_template_is_of_a_sentence_in_the_code(language: str) -> None:
    paths = [
        *COVERED,
        *(
            Path(module.__file__ or "")
            for module in (model, marking, report_text, gradescope_grading, gradescope_submission)
        ),
    ]
    code = "\n".join(
        node.value
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    parts = [part.strip() for english in entries(language) for part in re.split(r"\{\w+\}|1 |no |[.,:;] ?", english)]
    assert [part for part in parts if part.count(" ") > 6 and part.casefold() not in code.casefold()] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_verdicts_and_outcomes_have_translations(language: str) -> None:
    say = catalog(language)
    words = {mark(status) for status in Status if not status.is_finding or status.is_failure}
    words |= {OUTCOME_TITLES[outcome] for outcome in Outcome if outcome.exit_code <= 1}
    assert {word for word in words if say(word) == word} == set()


SENTENCES = [
    (
        "1 host-to-device copy of 3,328 bytes in all, at line 8 (call 1 of 3, with height=16, x of shape (7, 1))",
        "1 Kopie vom Host zum Gerät mit insgesamt 3.328 Byte, in Zeile 8 (Aufruf 1 von 3, mit height=16, x der Form "
        "(7, 1))",
    ),
    ("no host-to-device copies in a call", "keine Kopien vom Host zum Gerät in einem Aufruf"),
    ("0 to 3 copies between devices in a call", "0 bis 3 Kopien zwischen Geräten in einem Aufruf"),
    (
        "17 waits: `.item()` at line 8, 16 times; a copy to the host at line 9 (with x of shape (3,))",
        "17-mal Warten: `.item()` in Zeile 8, 16-mal; eine Kopie zum Host in Zeile 9 (mit x der Form (3,))",
    ),
    (
        "1,024 launches, at line 3 (1,000 times) and line 9: aten::add 1,000 times, aten::mul twice, …",
        "1.024 Kernelstarts, in Zeile 3 (1.000-mal) und Zeile 9: aten::add 1.000-mal, aten::mul zweimal, …",
    ),
    (
        "the result: relative error 1.2e-01; at [0, 1] 3.5, not 5.25; at [2, 0] -1, not 1 (2 of 1,000 elements are off)"
        " (call 2 of 2). This is the transposed result.",
        "das Ergebnis: relativer Fehler 1,2e-01; an [0, 1] 3,5 statt 5,25; an [2, 0] -1 statt 1 (2 von 1.000 Elementen "
        "weichen ab) (Aufruf 2 von 2). Das ist das transponierte Ergebnis.",
    ),
    ("result['weights'] is a list instead of a tensor", "result['weights']: eine Liste, erwartet: ein Tensor"),
    (
        "a tuple of 2: a tensor of shape (2, 3), torch.float32; an int",
        "ein Tupel mit 2 Teilen: ein Tensor der Form (2, 3), torch.float32; ein int",
    ),
    ("result[0] on cuda:0", "result[0] auf cuda:0"),
    (
        "24,576 bytes (24.0 KiB) on cuda:0, reached at line 7 when it allocated 8.00 KiB (with n=3)",
        "24.576 Byte (24,0 KiB) auf cuda:0, erreicht in Zeile 7 beim Anfordern von 8,00 KiB (mit n=3)",
    ),
    (
        "2.50 × the baseline's time; line 4 costs most: 37 % of it",
        "2,50 × die Zeit der Vergleichslösung; Zeile 4 kostet am meisten: 37 % davon",
    ),
    (
        "held back until these pass: The values agree with the CPU's; It prints at most 8 KiB",
        "zurückgehalten, bis diese bestanden sind: Die Werte stimmen mit denen der CPU überein; Es gibt höchstens "
        "8 KiB aus",
    ),
    ("✗ Failed: 2 of 4 checks passed", "✗ Nicht bestanden: 2 von 4 Prüfungen bestanden"),
    ("2.7 of 4 points", "2,7 von 4 Punkten"),
    (
        "Late (2 started days): 10 percent is taken off.",
        "Verspätet (2 angefangene Tage): 10 Prozent werden abgezogen.",
    ),
    (
        "Late (1 started day after 2 slip days): 10 percent is taken off.",
        "Verspätet (1 angefangener Tag nach 2 Karenztagen): 10 Prozent werden abgezogen.",
    ),
    (
        "Attempt 2 of 4 counts: the best on-time attempt of the first 3, which may count.",
        "Versuch 2 von 4 zählt: der beste rechtzeitige der ersten 3, die zählen können.",
    ),
]


@pytest.mark.parametrize(("english", "german"), SENTENCES)
def test_a_sentence_with_values_is_translated(english: str, german: str) -> None:
    assert catalog("de")(english) == german


@pytest.mark.parametrize(
    "words",
    [
        "{n} {0} {phrase} %s",
        "1 wait at line 3 instead of 2",
        "(call 1 of 2)",
        "\\{n}",
        "a list: none",
        "{n.real}",
    ],
)
def test_text_of_learners_stays_as_it_is(words: str) -> None:
    say = catalog("de")
    assert say(f"ValueError: {words}, at line 3") == f"ValueError: {words}, in Zeile 3"
    assert say(f"ValueError: {words}") == f"ValueError: {words}"
    assert say(f"ValueError: {words}, at line 3 (with n=1)") == f"ValueError: {words}, in Zeile 3 (mit n=1)"


def test_a_sentence_without_a_template_stays_english() -> None:
    say = catalog("de")
    assert say("An author's own sentence on 3 waits.") == "An author's own sentence on 3 waits."
    assert say("12 unheard things (call 1 of 2)") == "12 unheard things (call 1 of 2)"
    assert catalog("en")("The answer is right") == "The answer is right"
    with pytest.raises(UsageError, match="xx"):
        catalog("xx")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece", [" (with ", ", at line 3: ", "a list of 1: ", "; ", " (call 1 of 2, with ", " of a, b: "]
)
def test_no_text_takes_long(piece: str) -> None:
    say = catalog("de")
    for end in ("", ")", ". ", " in a call"):
        text = (piece * 4000)[: 4000 - len(end)] + end
        assert say(text) == text
        assert say(text[-LONGEST:])


def test_a_course_has_translations_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "languages" / "de.po"
    path.parent.mkdir()
    path.write_text('msgid ""\nmsgstr ""\n\n# mine\nmsgid "It "\n"waits {n} times."\nmsgstr "Es wartet {n}-mal."\n')
    say = catalog("de", tmp_path)
    assert say("It waits 1,500 times.") == "Es wartet 1.500-mal."
    assert say("The answer is right") == "Die Antwort ist richtig"


@pytest.mark.parametrize(
    ("po", "named"),
    [
        ('msgid "a"\nmsgstr "b\n', "line 2"),
        ('msgid "a {n}"\nmsgstr "b"\n', "{n}"),
        ('msgid "a {what}"\nmsgstr "b {what}"\n', "{what}"),
        ('msgid "a"b"\n', "line 1"),
        ("nonsense\n", "line 1"),
    ],
)
def test_a_mistake_in_a_catalog_is_named(tmp_path: Path, po: str, named: str) -> None:
    path = tmp_path / "languages" / "de.po"
    path.parent.mkdir()
    path.write_text(po)
    with pytest.raises(UsageError, match=re.escape(named)) as caught:
        catalog("de", tmp_path)
    assert str(path) in caught.value.title
