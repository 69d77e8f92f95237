"""Fuzzy search: the matcher of lists, search, the palette and "did you mean". It forgives missing and wrong letters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

_EARLIER_TEXT, _WHOLE_TEXT, _TEXT_START, _SIDE_BY_SIDE, _WHOLE_WORD, _WORD_START = 20, 6, 4, 10, 4, 2
_LONGEST = 24
"""Letters of the longest word that may be misspelled."""
_TYPO_LEAST, _SHORT_LEAST = 5, 3
"""Least letters of a word that may have a wrong letter, an extra letter, or two letters swapped.

A shorter word, of at least `_SHORT_LEAST` letters, is only compared with whole words of the text, as `gpo` with `gpu`.
It may have a wrong letter or two letters swapped.
"""
_LETTER = r"[^\W_]"
_START = rf"(?<!{_LETTER})"
_NUMBER = re.compile(r"\d+\.\d*")
_SKIP = rf"(?:{_LETTER}{{0,2}}?|{_LETTER}*[\W_]+(?:{_LETTER}+[\W_]+){{0,2}}?)"
"""Text skipped between two letters of a misspelled word: up to two letters, or the word's rest and two words."""

Item = TypeVar("Item")


def ranked(
    query: str,
    items: Iterable[Item],
    texts: Callable[[Item], Sequence[str]],
    weight: Callable[[Item], float] = lambda _: 0.0,
) -> list[tuple[Item, float]]:
    """Return the items that fit the query, the best first, with their scores; `weight` is added to the score.

    Every word of the query must fit one of the item's texts. Misspelt words count only if no item has all words as
    they are written. Equal items keep their order.
    """
    items = list(items)
    for inexact in (False, True):
        fitting = [
            (item, points + weight(item))
            for item in items
            if (points := score(query, *texts(item), inexact=inexact)) is not None
        ]
        if fitting:
            return sorted(fitting, key=lambda pair: -pair[1])
    return []


def score(query: str, *texts: str, inexact: bool = False) -> float | None:
    """Rate how well texts fit the words of `query`, in any order and case.

    Return None if a word is in none of the texts. Higher is better, and earlier texts count more. `inexact`: words may
    be misspelled or shortened.
    """
    lowered = [text.casefold() for text in texts]
    words = query.casefold().split()
    total = 0.0
    for word in words:
        points = [
            at + _EARLIER_TEXT * before
            for before, text in enumerate(reversed(lowered))
            if (at := _points(word, text, inexact)) is not None
        ]
        if not points:
            return None
        total += max(points)
    first, together = lowered[0], " ".join(words)
    return total + _SIDE_BY_SIDE * (len(words) > 1 and together in first) + _WHOLE_TEXT * (together == first)


def _points(word: str, text: str, inexact: bool) -> float | None:
    if places := _places(word, text):
        points = _TEXT_START * text.startswith(word)
        for start, end in places:
            if not text[start - 1 : start].isalnum():
                return points + (_WORD_START if text[end : end + 1].isalnum() else _WHOLE_WORD)
        return points
    if not inexact or (fit := _misspelled(word).search(text)) is None:
        return None
    return -len(_spans(fit))  # the fewer pieces, the better


def _places(word: str, text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each place of a word; a number with a dot fits only where a number starts."""
    if word not in text:
        return []
    start = r"(?<![\d.])" if _NUMBER.fullmatch(word) else ""
    return [fit.span() for fit in re.finditer(start + re.escape(word), text)]


@lru_cache(maxsize=64)
def _misspelled(word: str) -> re.Pattern[str]:
    """Return the pattern of a word with letters left out, as in `bufer` and `trmod`, or with one other mistake."""
    if not 1 < len(word) <= _LONGEST or not any(map(str.isalpha, word)):
        return re.compile(r"(?!)")  # fits nothing: numbers are meant as they are
    letters = [re.escape(letter) for letter in word]
    patterns = [_SKIP.join(f"({letter})" for letter in letters)]
    if len(word) >= _SHORT_LEAST:
        is_short = len(word) < _TYPO_LEAST
        typos = []
        for at in range(1, len(word)):
            before, after = "".join(letters[:at]), "".join(letters[at + 1 :])
            typos += [f"{before}{_LETTER}{after}"] + ([] if is_short else [before + after])
            typos += [before + letters[at + 1] + letters[at] + "".join(letters[at + 2 :])] if at + 1 < len(word) else []
        typo = f"({'|'.join(typos)})"
        patterns.insert(0, f"{typo}(?!{_LETTER})" if is_short else typo)
    return re.compile(f"{_START}(?:{'|'.join(patterns)})")


def marks(query: str, text: str) -> tuple[tuple[int, int], ...]:
    """Return (start, end) of the parts of a text that fit words of the query."""
    lowered = text.casefold()
    if len(lowered) != len(text):
        return ()  # some letters grow when they are folded, which moves positions
    spans = set[tuple[int, int]]()
    for word in query.casefold().split():
        exact = _places(word, lowered)
        fit = None if exact else _misspelled(word).search(lowered)
        spans.update(exact or (_spans(fit) if fit is not None else ()))
    return tuple(sorted(spans))


def _spans(fit: re.Match[str]) -> list[tuple[int, int]]:
    """Return (start, end) of the pieces of a match."""
    spans: list[tuple[int, int]] = []
    for start, end in fit.regs[1:]:
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
        elif start >= 0:
            spans.append((start, end))
    return spans


def likely_meant(
    word: str, items: Iterable[Item], texts: Callable[[Item], Sequence[str]], *, most: int = 1
) -> list[Item]:
    """Return the items that were probably meant by a wrong word, the best first."""
    items = list(items)
    fitting = ranked(word, items, texts)
    near = [item for item, points in fitting if points > fitting[0][1] - _EARLIER_TEXT]
    if not near:
        import difflib  # 3 ms: only a wrong word pays for it

        by_name = {texts(item)[0]: item for item in items}
        near = [by_name[name] for name in difflib.get_close_matches(word, by_name, n=most)]
    return near[:most]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question with the nearest of the known words, and a space after it; empty if none is near."""
    near = likely_meant(word, known, lambda name: (name,))
    return f"Did you mean {near[0]!r}? " if near else ""
