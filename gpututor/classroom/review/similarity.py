"""Similarity of submissions: winnowing of their tokens, and the words that they have in common.

Winnowing, by Schleimer, Wilkerson and Aiken (2003), selects some of the hashes of a file's k-grams of tokens. Two files
with `K + WINDOW - 1` equal tokens in a row always share a selected hash. Short texts have few hashes: there, names,
comments and strings say more.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

from gpututor.classroom.review.tokens import tokens_of, words_of
from gpututor.classroom.submissions import Submission

K = 10
"""Tokens of a k-gram: about a line."""
WINDOW = 4
"""Consecutive k-grams of which one is selected."""
FEWEST = 20
"""Least number of own fingerprints of a text whose code is compared: short correct solutions are all alike."""
FEWEST_WORDS = 6
"""Least number of own words of a text whose words are compared; see `words_of`."""
COMMON_PEOPLE = 10
COMMON_SHARE = 0.1
"""Share of the class. A fingerprint or word that more people have, and more than `COMMON_PEOPLE`, does not count."""
MOST_LEADERS = 100
"""Number of texts that are tried as centers of crowds: enough to hit any group of a tenth of a class."""
MOST_ATTEMPTS = 20
"""Newest attempts of a student that are compared: one student must not take as much time as a class."""

_BASE, _MODULUS = 1_000_003, (1 << 61) - 1
Feature = TypeVar("Feature", int, str)
"""A fingerprint or a word."""


def hashes_of(text: str) -> list[int]:
    """Return the hashes of all k-grams, the same on every machine."""
    numbers = [zlib.crc32(token.encode("utf-8", "surrogatepass")) + 1 for token in tokens_of(text)]
    if len(numbers) < K:
        return []
    highest = pow(_BASE, K - 1, _MODULUS)
    value = 0
    for number in numbers[:K]:
        value = (value * _BASE + number) % _MODULUS
    hashes = [value]
    for gone, number in zip(numbers, numbers[K:], strict=False):
        value = ((value - gone * highest) * _BASE + number) % _MODULUS
        hashes.append(value)
    return hashes


def winnowed(hashes: Sequence[int]) -> frozenset[int]:
    """Return the least hash of each window."""
    if len(hashes) < WINDOW:
        return frozenset(hashes and [min(hashes)])
    return frozenset(map(min, *(hashes[start:] for start in range(WINDOW))))


def fingerprints(text: str, template: Collection[int] = ()) -> frozenset[int]:
    """Return the selected hashes of `text`, without the k-grams of the template."""
    return winnowed([value for value in hashes_of(text) if value not in template])


@dataclass(frozen=True)
class ComparedText:
    """A text, and its submissions."""

    sha256: str
    files: tuple[Submission, ...]
    parties: frozenset[frozenset[str]]
    """Students of each file: several for a group."""

    def has_other_students_than(self, other: ComparedText) -> bool:
        """Return True if different students submitted the two texts."""
        return any(not party & another for party in self.parties for another in other.parties)


@dataclass(frozen=True)
class Share:
    """Features in common: fingerprints or words."""

    common: int
    of: int
    """Features of the text that has fewer."""

    @property
    def ratio(self) -> float:
        return self.common / self.of


@dataclass(frozen=True)
class SimilarPair:
    """Two texts of different people that are alike, or a text of several people."""

    texts: tuple[ComparedText, ComparedText]
    """Texts in the order of their first students; the same text twice if several people submitted it."""
    code: Share | None
    """None if one text has fewer than `FEWEST` fingerprints, or if they have none in common."""
    words: Share | None
    """None if one text has fewer than `FEWEST_WORDS` words, or if they have none in common."""
    shared_words: tuple[str, ...]
    """Own words of both texts, the longest first."""

    @property
    def is_identical(self) -> bool:
        return self.texts[0] is self.texts[1]

    @property
    def share(self) -> float:
        """The larger of both shares; 1 for the same text."""
        return 1.0 if self.is_identical else max(share.ratio for share in (self.code, self.words) if share is not None)

    @property
    def order(self) -> tuple[float, bool, tuple[str, int, str], tuple[str, int, str]]:
        """Key that sorts the most similar pairs first."""
        return -self.share, not self.is_identical, _first(self.texts[0]), _first(self.texts[1])


@dataclass(frozen=True)
class Cluster:
    """Texts of several people, each similar to another."""

    texts: tuple[ComparedText, ...]
    least: float
    """Least share of two texts that are alike."""
    greatest: float
    nearest: tuple[ComparedText, ComparedText]
    """Two most similar texts of different people."""
    by: tuple[str, ...] = ("code",)
    """Evidence: `code`, `words` or both."""
    shared_words: tuple[str, ...] = ()
    """Own words of the two most similar texts, the longest first."""

    @property
    def people(self) -> int:
        return len({party for text in self.texts for party in text.parties})


@dataclass(frozen=True)
class Similar:
    """Results of the comparison of the texts for one exercise, with statistics."""

    pairs: tuple[SimilarPair, ...]
    """The most similar pairs first: exactly the same texts of several people, however short, and similar texts."""
    clusters: tuple[Cluster, ...]
    crowds: tuple[Cluster, ...]
    """Groups of texts that are alike in common fingerprints: each text resembles the same text of its group."""
    texts: int
    compared: int
    """Texts with enough fingerprints of their own."""
    compared_words: int
    """Texts with enough words of their own."""
    fingerprints: int
    common: int


def template_of(texts: Iterable[str]) -> frozenset[int]:
    """Return all k-grams of code that students did not write."""
    return frozenset(value for text in texts for value in hashes_of(text))


def texts_of(files: Iterable[Submission]) -> tuple[ComparedText, ...]:
    """Return the different texts of the newest attempts, sorted by digest."""
    by_student: dict[str, list[Submission]] = defaultdict(list)
    for file in files:
        by_student[file.student].append(file)
    by_digest: dict[str, list[Submission]] = defaultdict(list)
    for attempts in by_student.values():
        for file in sorted(attempts, key=_order)[-MOST_ATTEMPTS:]:
            by_digest[file.sha256].append(file)
    return tuple(
        ComparedText(digest, tuple(sorted(same, key=_order)), _parties(same))
        for digest, same in sorted(by_digest.items())
    )


def similar(
    texts: Sequence[ComparedText], read: Callable[[str], str | None], given: Collection[str], share: float
) -> Similar:
    """Compare texts.

    `read`: returns the text of a digest, None if it is lost. `given`: the course's own texts, whose code and words do
    not count, and which may be identical. `share`: least share of alike texts.
    """
    contents = {text.sha256: content for text in texts if (content := read(text.sha256)) is not None}
    template, given_words = template_of(given), frozenset[str]().union(*map(words_of, given))
    own = {digest: fingerprints(content, template) for digest, content in contents.items()}
    own_words = {digest: words_of(content) - given_words for digest, content in contents.items()}
    people = len({party for text in texts for party in text.parties})
    many = max(COMMON_PEOPLE, COMMON_SHARE * people)
    common = _common(texts, own, many)
    code = _enough(texts, own, common, FEWEST)
    words = _enough(texts, own_words, _common(texts, own_words, many), FEWEST_WORDS)
    pairs = _pairs(texts, code, words, share)
    digests = {hashlib.sha256(text.encode()).hexdigest() for text in given}
    same = [text for text in texts if text.sha256 not in digests and text.has_other_students_than(text)]
    identical = [_identical(text, code.get(text), own_words.get(text.sha256)) for text in same]
    return Similar(
        pairs=tuple(sorted([*identical, *pairs], key=lambda pair: pair.order)),
        clusters=_sorted(_clusters(pairs)),
        crowds=_sorted(_crowds(texts, own, common, share, many)),
        texts=len(texts),
        compared=len(code),
        compared_words=len(words),
        fingerprints=len(frozenset().union(*code.values())),
        common=len(common),
    )


def _enough(
    texts: Iterable[ComparedText], own: Mapping[str, frozenset[Feature]], common: frozenset[Feature], fewest: int
) -> dict[ComparedText, frozenset[Feature]]:
    """Return the features that are not common, by text; leave out texts with fewer than `fewest`."""
    left = {text: own[text.sha256] - common for text in texts if text.sha256 in own}
    return {text: features for text, features in left.items() if len(features) >= fewest}


def _sorted(clusters: Iterable[Cluster]) -> tuple[Cluster, ...]:
    return tuple(sorted(clusters, key=lambda cluster: _first(cluster.texts[0])))


def _first(text: ComparedText) -> tuple[str, int, str]:
    return _order(text.files[0])


def _order(file: Submission) -> tuple[str, int, str]:
    return file.student, file.attempt, file.source


def _parties(files: Iterable[Submission]) -> frozenset[frozenset[str]]:
    by_source: dict[str, set[str]] = defaultdict(set)
    for file in files:
        by_source[file.source].add(file.student)
    return frozenset(map(frozenset, by_source.values()))


def _common(texts: Iterable[ComparedText], own: Mapping[str, frozenset[Feature]], many: float) -> frozenset[Feature]:
    """Return the fingerprints or words of more than `many` people."""
    holders: Counter[Feature] = Counter()
    by_person: dict[frozenset[str], set[Feature]] = defaultdict(set)
    for text in texts:
        for party in text.parties:
            by_person[party] |= own.get(text.sha256, frozenset())
    for hashes in by_person.values():
        holders.update(hashes)
    return frozenset(value for value, number in holders.items() if number > many)


def _crowds(
    texts: Sequence[ComparedText], own: Mapping[str, frozenset[int]], common: frozenset[int], share: float, many: float
) -> Iterator[Cluster]:
    """Yield groups of more than `many` people whose texts are alike in common fingerprints."""
    hashes = {text: own.get(text.sha256, frozenset()) for text in texts}
    held = {text: len(hashes[text] & common) for text in texts}
    alone = {text: None for text in texts if held[text] >= FEWEST}
    leaders = [text for text in alone if held[text] >= share * len(hashes[text])]
    for leader in leaders[:MOST_LEADERS]:  # sorted by digest, which is as good as random
        if leader not in alone:
            continue
        first = hashes[leader]
        shares = {
            text: len(first & hashes[text]) / min(len(first), len(hashes[text])) for text in alone if text is not leader
        }
        crowd = [text for text, much in shares.items() if much >= share]
        alike = [text for text in crowd if text.has_other_students_than(leader)]
        if not alike:
            continue
        nearest = max(sorted(alike, key=_first), key=shares.__getitem__)
        cluster = _cluster([leader, *crowd], [shares[text] for text in crowd], leader, nearest)
        if cluster.people > many:
            for text in cluster.texts:
                del alone[text]
            yield cluster


def _cluster(
    texts: Iterable[ComparedText], shares: Sequence[float], text: ComparedText, other: ComparedText
) -> Cluster:
    nearest = (text, other) if _first(text) <= _first(other) else (other, text)
    return Cluster(tuple(sorted(texts, key=_first)), min(shares), max(shares), nearest)


def _clusters(pairs: Sequence[SimilarPair]) -> Iterator[Cluster]:
    leader = {text: text for pair in pairs for text in pair.texts}

    def leader_of(text: ComparedText) -> ComparedText:
        while leader[text] is not text:
            leader[text] = text = leader[leader[text]]
        return text

    for pair in pairs:
        leader[leader_of(pair.texts[0])] = leader_of(pair.texts[1])
    grouped: dict[ComparedText, list[SimilarPair]] = defaultdict(list)
    for pair in pairs:
        grouped[leader_of(pair.texts[0])].append(pair)
    for members in grouped.values():
        nearest = min(members, key=lambda pair: pair.order)
        by = tuple(kind for kind in ("code", "words") if any(_decides(pair, kind) for pair in members))
        texts = dict.fromkeys(text for pair in members for text in pair.texts)
        cluster = _cluster(texts, [pair.share for pair in members], *nearest.texts)
        yield replace(cluster, by=by, shared_words=nearest.shared_words)


def _decides(pair: SimilarPair, kind: str) -> bool:
    share: Share | None = getattr(pair, kind)
    return share is not None and share.ratio == pair.share


def _identical(text: ComparedText, hashes: frozenset[int] | None, words: frozenset[str] | None) -> SimilarPair:
    code, own = (Share(len(features), len(features)) if features else None for features in (hashes, words))
    return SimilarPair((text, text), code, own, _longest(words or ()))


def _pairs(
    texts: Sequence[ComparedText],
    code: Mapping[ComparedText, frozenset[int]],
    words: Mapping[ComparedText, frozenset[str]],
    share: float,
) -> list[SimilarPair]:
    """Return the pairs of different people's texts whose code or words are alike."""
    alike_code, alike_words = _shares(texts, code), _shares(texts, words)
    alike = {
        place
        for shares in (alike_code, alike_words)
        for place, pair_share in shares.items()
        if pair_share.ratio >= share
    }
    pairs = []
    for places in sorted(alike):
        first, second = sorted((texts[place] for place in places), key=_first)
        if first.has_other_students_than(second):
            both = _longest(words.get(first, frozenset()) & words.get(second, frozenset()))
            pairs.append(SimilarPair((first, second), alike_code.get(places), alike_words.get(places), both))
    return pairs


def _shares(
    texts: Sequence[ComparedText], features: Mapping[ComparedText, frozenset[Feature]]
) -> dict[tuple[int, int], Share]:
    """Return the share of each pair of places in `texts` that have features in common."""
    holders: dict[Feature, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        for feature in features.get(text, ()):
            holders[feature].append(place)
    shared: Counter[tuple[int, int]] = Counter()
    for places in holders.values():
        if len(places) > 1:
            shared.update(combinations(places, 2))
    sizes = [len(features.get(text, ())) for text in texts]
    return {pair: Share(number, min(sizes[pair[0]], sizes[pair[1]])) for pair, number in shared.items()}


def _longest(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(words, key=lambda word: (-len(word), word)))
