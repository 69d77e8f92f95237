"""Translation of sentences that students read, by gettext catalogs: `languages/LANGUAGE.po`.

Checks write plain English, and reports keep it. A catalog lists their sentences as templates, such as `{n} waits for
the device in a call`. A sentence is translated if a template fits it. So reports of any age, and the sentences of an
author's own checks, can be translated. All others stay English. Text of learners is only ever the value of a field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from pathlib import Path

from gpututor.course.loader import LANGUAGES
from gpututor.errors import UsageError

ENGLISH = "en"
LONGEST = 1000
"""Characters of the longest sentence that is translated. Longer ones show whole results, or attack the matcher."""
KINDS = {
    "n": r"\d[\d,]*",
    "number": r"[-+]?(?:\d[\d,.]*(?:e[-+]?\d+)?|inf|nan)|True|False",
    "size": r"[\d,.]+(?:e[-+]\d+)? (?:bytes?|[KMGT]iB)(?: \([\d,.]+ [KMGT]iB\))?",
    "time": r"[\d,.]+ (?:ns|µs|ms|s)",
    "line": r"\d+",
    "name": r"[^\s,;()]+",
    "shape": r"\([\d, ]*\)",
    "place": r"\[[\d, ]*\]",
    "key": r"'[^']*'|\d+",
    "keys": r"(?:'[^']*'|\d+)(?:, (?:'[^']*'|\d+))*",
    "kind": r"None|an? [A-Za-z ]+?|an object of class \S+?",
    "factor": r"-?(?:1/)?\d[\d,.]*(?:e[-+]?\d+)?",
    "complex": r"\(?[-+\d.e]+j\)?",
    "call": r"\.\w+\([^()]*\)",
    "cause": r"`[^`]+`|[a-z ]+",
    "error": r"[\w.]*(?:Error|Exception|Exit|Interrupt|Iteration|Warning)",
    "device": r"(?:cuda|mps|xpu|virtual):\d+|cpu",
    "flops": r"[\d,.]+ [PTGMk]?FLOP",
    "part": r"the result|result\[(?:'[^']*'|\d+)\]",
    "text": r".*",
    "phrase": r".+?",
    "names": r".+?",
    "list": r".+?",
}
"""Values of each kind of field. A field's name is its kind, with a number if there are several of it.

`phrase` is itself a sentence with a template; `list` has several, with `; ` between them, and `names` with `, `, `and`
or `or`. `text` is anything, and stays as it is: it needs words around it that no other sentence has.
"""
FIELD = re.compile(r"\{([a-z]+)\d*\}")
_NEUTRAL = re.compile(r"`[^`]+`|[^A-Za-z]*")
_INPUT = re.compile(r"(?<![\w.])\w+ of shape \([\d, ]*\)")
_SEPARATORS = {"list": re.compile(r"(; )"), "names": re.compile(r"(, | and | or )")}
_SWAP_POINTS = str.maketrans(",.", ".,")


@dataclass(frozen=True)
class Template:
    """A sentence of a catalog with fields."""

    english: str
    translation: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        parts, end = [], 0
        for field in FIELD.finditer(self.english):
            parts += [re.escape(self.english[end : field.start()]), f"(?P<{field[0][1:-1]}>{KINDS[field[1]]})"]
            end = field.end()
        return re.compile("".join([*parts, re.escape(self.english[end:])]), re.DOTALL)


class Catalog:
    """Translations into a language. It is called with an English sentence."""

    def __init__(self, language: str, entries: Mapping[str, str]) -> None:
        self.language = language
        self._plain = {english: words for english, words in entries.items() if not FIELD.search(english)}
        self._templates = [Template(english, words) for english, words in entries.items() if FIELD.search(english)]
        header = dict(re.findall(r"^([\w-]+): *(.*)$", entries.get("", ""), re.MULTILINE))
        self._has_decimal_comma = header.get("X-Decimal-Comma") == "yes"
        self._translated: Callable[[str], str | None] = cache(self._translate)

    def __call__(self, english: str) -> str:
        """Return the translation; the English sentence if there is none."""
        if not english or not self._plain:
            return english
        return self._translated(english) or english

    def _translate(self, english: str) -> str | None:
        if (plain := self._plain.get(english)) is not None:
            return plain
        if len(english) > LONGEST:
            return None
        if _NEUTRAL.fullmatch(english):
            return english
        return next(filter(None, (self._filled(template, english) for template in self._templates)), None)

    def _filled(self, template: Template, english: str) -> str | None:
        """Return the translation if the template fits, and if there is one for each of its phrases."""
        match = template.pattern.fullmatch(english)
        if match is None:
            return None
        values = {name: self._value(name.rstrip("0123456789"), value) for name, value in match.groupdict().items()}
        if None in values.values():
            return None
        return FIELD.sub(lambda field: values[field[0][1:-1]] or "", template.translation)

    def _value(self, kind: str, value: str) -> str | None:
        match kind:
            case "phrase" | "kind" | "cause":
                return self._translated(value)
            case "list" | "names":
                pieces = [self._translated(piece) for piece in _SEPARATORS[kind].split(value)]
                return None if None in pieces else "".join(filter(None, pieces))
            case "part":
                return self(value)
            case "n" | "number" | "factor" | "time" | "size" | "flops":
                localized = value.translate(_SWAP_POINTS) if self._has_decimal_comma else value
                return re.sub(r"bytes?", lambda word: self(word[0]), localized)
            case "text":
                return _INPUT.sub(lambda words: self(words[0]), value)
        return value


def languages() -> list[str]:
    """Return the languages with a catalog, and English."""
    names = [entry.name for entry in (resources.files("gpututor") / LANGUAGES).iterdir()]
    return sorted([ENGLISH, *(name.removesuffix(".po") for name in names if name.endswith(".po"))])


@cache
def catalog(language: str, course: Path | None = None) -> Catalog:
    """Return the catalog of a language, with `languages/LANGUAGE.po` of a course; an empty one for English.

    Raises `UsageError` for an unknown language and for an invalid catalog of the course.
    """
    if language == ENGLISH:
        return Catalog(ENGLISH, {})
    if language not in languages():
        raise UsageError(f"There is no translation into {language!r}.", f"Use one of {', '.join(languages())}.")
    text = (resources.files("gpututor") / LANGUAGES / f"{language}.po").read_text(encoding="utf-8")
    entries = dict(entries_of(text))
    path = course / LANGUAGES / f"{language}.po" if course is not None else None
    if path is not None and path.exists():
        try:
            own = {english: words for english, words in entries_of(path.read_text(encoding="utf-8")) if english}
            for english, words in own.items():
                check_fields(english, words)
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: {error}", "Correct this line, or leave the file out.") from error
        entries = {"": entries[""], **own, **entries}
    return Catalog(language, entries)


def check_fields(english: str, words: str) -> None:
    """Raise `ValueError` for a field of an unknown kind, and for fields that only one of the two sentences has."""
    fields, others = ({field[0] for field in FIELD.finditer(text)} for text in (english, words))
    if fields != others:
        raise ValueError(f"{english!r}: the translation has other fields ({', '.join(sorted(fields ^ others))})")
    if unknown := [field[0] for field in FIELD.finditer(english) if field[1] not in KINDS]:
        raise ValueError(f"{english!r}: the field {unknown[0]} has no kind; use one of {', '.join(KINDS)}")


def entries_of(po: str) -> Iterator[tuple[str, str]]:
    """Yield each sentence of a catalog with its translation, the header with an empty sentence first.

    Entries without a translation are left out. Raises `ValueError` for a line that no catalog has.
    """
    texts: dict[str, list[str]] = {"msgid": [], "msgstr": []}
    word = ""
    for number, line in enumerate([*po.splitlines(), 'msgid ""'], 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        keyword, _, literal = line.partition(" ") if not line.startswith('"') else (word, "", line)
        if keyword not in texts or not literal.startswith('"') or not literal.endswith('"'):
            raise ValueError(f"line {number}: {line[:60]!r} is not a line of a catalog")
        if keyword == "msgid" and word == "msgstr":
            if texts["msgstr"] != [""]:
                yield "".join(texts["msgid"]), "".join(texts["msgstr"])
            texts = {"msgid": [], "msgstr": []}
        word = keyword
        try:
            texts[word].append(json.loads(literal))
        except ValueError as error:
            raise ValueError(f"line {number}: {literal[:60]} is not a text in quotes ({error})") from error
