"""Similarity of submissions: winnowing of their tokens.

Winnowing, by Schleimer, Wilkerson and Aiken (2003), selects some of the hashes of a file's k-grams of tokens. Two files
with `K + WINDOW - 1` equal tokens in a row always share a selected hash. Files with syntax errors work as well.
"""

from __future__ import annotations

import keyword
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpututor.classroom.submissions import Submission

K = 10
"""Tokens of a k-gram: about a line."""
WINDOW = 4
"""Consecutive k-grams of which one is selected."""
MOST_CHARACTERS = 100_000
"""Characters of a file that are compared."""
FEWEST = 20
"""Least number of own fingerprints of a compared text: short correct solutions are all alike."""
COMMON_PEOPLE = 10
COMMON_SHARE = 0.1
"""Share of the class, and `COMMON_PEOPLE`, above which a shared fingerprint is part of an obvious solution."""
MOST_LEADERS = 100
"""Texts that are tried as centers of crowds. One of each tenth of a class is among them."""
MOST_ATTEMPTS = 20
"""Newest attempts of a student at an exercise, so that one student does not cost as much time as a class."""

_TOKEN = re.compile(
    r"""
      (?P<nothing> \s+ | \\\r?\n | \#[^\n]* )
    | (?P<text> [rRbBuUfF]{0,2} (?:
          \"{3} (?: [^\\] | \\. )*? (?: \"{3} | \\?\Z )
        | '{3}  (?: [^\\] | \\. )*? (?: '{3}  | \\?\Z )
        | \" (?: [^"\\\n] | \\. )* "?
        | '  (?: [^'\\\n] | \\. )* '? ) )
    | (?P<number> \.?\d [\w.]* )
    | (?P<name> [^\W\d]\w* )
    | (?P<sign> \*\*= | //= | >>= | <<= | \.\.\. | [-+*/%@&|^:=!<>]= | \*\* | // | << | >> | -> | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_KEYWORDS = frozenset(keyword.kwlist)
_BASE, _MODULUS = 1_000_003, (1 << 61) - 1


def tokens_of(text: str) -> Iterator[str]:
    """Yield tokens; own names, numbers and strings are all equal. Names after a dot stay: most are a library's."""
    before = ""
    for match in _TOKEN.finditer(text, 0, MOST_CHARACTERS):
        match match.lastgroup:
            case "nothing":
                continue
            case "text":
                token = "''"
            case "number":
                token = "0"
            case "name":
                word = match[0]
                token = word if before == "." or word in _KEYWORDS else "name"
            case _:
                token = match[0]
        yield token
        before = token


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
class Text:
    """A text, and its submissions."""

    sha256: str
    files: tuple[Submission, ...]
    parties: frozenset[frozenset[str]]
    """Students of each file: several for a group."""

    def is_of_others_than(self, other: Text) -> bool:
        """Check that different students submitted the two texts."""
        return any(not party & another for party in self.parties for another in other.parties)


@dataclass(frozen=True)
class Cluster:
    """Texts of several people, each similar to another."""

    texts: tuple[Text, ...]
    least: float
    """Least share of two texts that are alike."""
    greatest: float
    nearest: tuple[Text, Text]
    """Two most similar texts of different people."""

    @property
    def people(self) -> int:
        return len({party for text in self.texts for party in text.parties})


@dataclass(frozen=True)
class Similar:
    """Results of the comparison of the texts for one exercise, with statistics."""

    identical: tuple[Text, ...]
    """Exactly the same texts of several people, however short."""
    short: frozenset[str]
    """Digests of identical texts with fewer than `FEWEST` fingerprints of their own."""
    clusters: tuple[Cluster, ...]
    crowds: tuple[Cluster, ...]
    """Texts of mostly common fingerprints, each like the same text."""
    texts: int
    compared: int
    fingerprints: int
    common: int


def template_of(texts: Iterable[str]) -> frozenset[int]:
    """Return all k-grams of code that students did not write."""
    return frozenset(value for text in texts for value in hashes_of(text))


def texts_of(files: Iterable[Submission]) -> tuple[Text, ...]:
    """Return the different texts of the newest attempts, sorted by digest."""
    by_student: dict[str, list[Submission]] = defaultdict(list)
    for file in files:
        by_student[file.student].append(file)
    by_digest: dict[str, list[Submission]] = defaultdict(list)
    for attempts in by_student.values():
        for file in sorted(attempts, key=_order)[-MOST_ATTEMPTS:]:
            by_digest[file.sha256].append(file)
    return tuple(
        Text(digest, tuple(sorted(same, key=_order)), _parties(same)) for digest, same in sorted(by_digest.items())
    )


def similar(
    texts: Sequence[Text],
    read: Callable[[str], str | None],
    template: Collection[int],
    share: float,
    given: Collection[str] = (),
) -> Similar:
    """Compare texts.

    `read`: returns the text of a digest, None if it is lost. `share`: least share of alike texts. `given`: digests of
    the course's own texts, which may be identical.
    """
    own = {text.sha256: fingerprints(content, template) for text in texts if (content := read(text.sha256)) is not None}
    identical = [text for text in texts if text.sha256 not in given and text.is_of_others_than(text)]
    people = len({party for text in texts for party in text.parties})
    many = max(COMMON_PEOPLE, COMMON_SHARE * people)
    common = _common(texts, own, many)
    left = {digest: hashes - common for digest, hashes in own.items()}
    compared = [text for text in texts if len(left.get(text.sha256, ())) >= FEWEST]
    return Similar(
        identical=tuple(sorted(identical, key=_first)),
        short=frozenset(text.sha256 for text in identical if len(own.get(text.sha256, ())) < FEWEST),
        clusters=_sorted(_clusters(compared, left, share)),
        crowds=_sorted(_crowds(texts, own, common, share, many)),
        texts=len(texts),
        compared=len(compared),
        fingerprints=len(frozenset().union(*(left[text.sha256] for text in compared))),
        common=len(common),
    )


def _sorted(clusters: Iterable[Cluster]) -> tuple[Cluster, ...]:
    return tuple(sorted(clusters, key=lambda cluster: _first(cluster.texts[0])))


def _first(text: Text) -> tuple[str, int, str]:
    return _order(text.files[0])


def _order(file: Submission) -> tuple[str, int, str]:
    return file.student, file.attempt, file.source


def _parties(files: Iterable[Submission]) -> frozenset[frozenset[str]]:
    by_source: dict[str, set[str]] = defaultdict(set)
    for file in files:
        by_source[file.source].add(file.student)
    return frozenset(map(frozenset, by_source.values()))


def _common(texts: Iterable[Text], own: Mapping[str, frozenset[int]], many: float) -> frozenset[int]:
    """Return the fingerprints of more than `many` people."""
    holders: Counter[int] = Counter()
    by_person: dict[frozenset[str], set[int]] = defaultdict(set)
    for text in texts:
        for party in text.parties:
            by_person[party] |= own.get(text.sha256, frozenset())
    for hashes in by_person.values():
        holders.update(hashes)
    return frozenset(value for value, number in holders.items() if number > many)


def _crowds(
    texts: Sequence[Text], own: Mapping[str, frozenset[int]], common: frozenset[int], share: float, many: float
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
        alike = [text for text in crowd if text.is_of_others_than(leader)]
        if not alike:
            continue
        nearest = max(sorted(alike, key=_first), key=shares.__getitem__)
        cluster = _cluster([leader, *crowd], [shares[text] for text in crowd], leader, nearest)
        if cluster.people > many:
            for text in cluster.texts:
                del alone[text]
            yield cluster


def _cluster(texts: Iterable[Text], shares: Sequence[float], text: Text, other: Text) -> Cluster:
    nearest = (text, other) if _first(text) <= _first(other) else (other, text)
    return Cluster(tuple(sorted(texts, key=_first)), min(shares), max(shares), nearest)


def _clusters(texts: Sequence[Text], left: Mapping[str, frozenset[int]], share: float) -> Iterator[Cluster]:
    pairs = _pairs(texts, left, share)
    leader = list(range(len(texts)))

    def leader_of(place: int) -> int:
        while leader[place] != place:
            leader[place] = place = leader[leader[place]]
        return place

    for place, other in pairs:
        leader[leader_of(place)] = leader_of(other)
    grouped: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for pair in pairs:
        grouped[leader_of(pair[0])].append(pair)
    for members in grouped.values():
        near = min(members, key=lambda pair: (-pairs[pair], pair))
        places = {place for pair in members for place in pair}
        shares = [pairs[pair] for pair in members]
        yield _cluster([texts[place] for place in sorted(places)], shares, texts[near[0]], texts[near[1]])


def _pairs(texts: Sequence[Text], left: Mapping[str, frozenset[int]], share: float) -> dict[tuple[int, int], float]:
    """Return pairs of different people's texts, with the share of the shorter text's fingerprints in common."""
    holders: dict[int, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        for value in left[text.sha256]:
            holders[value].append(place)
    shared: Counter[tuple[int, int]] = Counter()
    for places in holders.values():
        if len(places) > 1:
            shared.update(combinations(places, 2))
    sizes = [len(left[text.sha256]) for text in texts]
    return {
        (place, other): number / least
        for (place, other), number in sorted(shared.items())
        if number >= share * (least := min(sizes[place], sizes[other])) and texts[place].is_of_others_than(texts[other])
    }
