"""Similarity of submissions: winnowing of their tokens.

Winnowing, by Schleimer, Wilkerson and Aiken (2003): a file is known by some of the hashes of its k-grams of tokens,
such that what two files have in common over `K + WINDOW - 1` tokens is always noticed. It works as well for a file
that Python itself cannot read.
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
"""Tokens of one k-gram: a line, or a little more."""
WINDOW = 4
"""Of so many k-grams in a row one is kept."""
MOST_CHARACTERS = 100_000
"""Of a file that are looked at; nobody types more."""

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
    """`text` as normalised tokens: its own names are all one, so are its numbers, and its texts.

    A name after a dot stays, as it is mostly a library's: `torch.zeros` and `torch.ones` are not the same.
    """
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
    """Of all k-grams, in their order; the same on every machine."""
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
    """The least of each window: what a file is known by."""
    if len(hashes) < WINDOW:
        return frozenset(hashes and [min(hashes)])
    return frozenset(map(min, *(hashes[start:] for start in range(WINDOW))))


def fingerprints(text: str, template: Collection[int] = ()) -> frozenset[int]:
    """What `text` is known by, beside the k-grams of the template."""
    return winnowed([value for value in hashes_of(text) if value not in template])


FEWEST = 20
"""Texts with fewer fingerprints of their own are not compared: in a few lines all right answers are alike."""
COMMON_PEOPLE = 10
COMMON_SHARE = 0.1
"""What more than ten people, and more than a tenth of all, have in common is mostly how the exercise is solved."""
MOST_LEADERS = 100
"""Texts that crowds are looked for around: with so many, one of each tenth of the class is among them."""

MOST_ATTEMPTS = 20
"""The newest ones of a student at an exercise: a thousand of them would take as long as a class."""


@dataclass(frozen=True)
class Text:
    """One text, and all who handed it in."""

    sha256: str
    files: tuple[Submission, ...]
    parties: frozenset[frozenset[str]]
    """The students of each file: several where a group handed in one."""

    def is_of_others_than(self, other: Text) -> bool:
        """Whether somebody handed in this one, and somebody else the other."""
        return any(not one & another for one in self.parties for another in other.parties)


@dataclass(frozen=True)
class Cluster:
    """Texts of several people that are alike, each with another one of them."""

    texts: tuple[Text, ...]
    least: float
    """The least and the greatest share of any two that are alike."""
    greatest: float
    nearest: tuple[Text, Text]
    """Two that are as alike as any, of different people."""

    @property
    def people(self) -> int:
        return len({party for text in self.texts for party in text.parties})


@dataclass(frozen=True)
class Similar:
    """What was found among the texts of one exercise."""

    identical: tuple[Text, ...]
    """Texts that several people handed in, to the letter."""
    clusters: tuple[Cluster, ...]
    crowds: tuple[Cluster, ...]
    """Texts that consist mostly of what many have in common, each alike to the same one of them."""
    texts: int
    compared: int
    fingerprints: int
    common: int


def template_of(texts: Iterable[str]) -> frozenset[int]:
    """All k-grams of what everybody was given, or may come to by themselves: none of it is anybody's own."""
    return frozenset(value for text in texts for value in hashes_of(text))


def texts_of(files: Iterable[Submission]) -> tuple[Text, ...]:
    """The different texts of the newest attempts, in the order of their digests."""
    by_student: dict[str, list[Submission]] = defaultdict(list)
    for one in files:
        by_student[one.student].append(one)
    by_digest: dict[str, list[Submission]] = defaultdict(list)
    for found in by_student.values():
        for one in sorted(found, key=_who)[-MOST_ATTEMPTS:]:
            by_digest[one.sha256].append(one)
    return tuple(
        Text(digest, tuple(sorted(found, key=_who)), _parties(found)) for digest, found in sorted(by_digest.items())
    )


def similar(
    texts: Sequence[Text], read: Callable[[str], str | None], template: Collection[int], share: float
) -> Similar:
    """`read`: the text of a digest, None where it is lost. `share`: from which share of fingerprints on."""
    own = {text.sha256: fingerprints(content, template) for text in texts if (content := read(text.sha256)) is not None}
    identical = [text for text in texts if len(own.get(text.sha256, ())) >= FEWEST and text.is_of_others_than(text)]
    people = len({party for text in texts for party in text.parties})
    many = max(COMMON_PEOPLE, COMMON_SHARE * people)
    common = _common(texts, own, many)
    left = {digest: found - common for digest, found in own.items()}
    compared = [text for text in texts if len(left.get(text.sha256, ())) >= FEWEST]
    clusters = _clusters(compared, left, share)
    return Similar(
        identical=tuple(sorted(identical, key=lambda text: _who(text.files[0]))),
        clusters=_in_order(clusters),
        crowds=_in_order(_crowds(texts, own, common, share, many)),
        texts=len(texts),
        compared=len(compared),
        fingerprints=len(frozenset().union(*(left[text.sha256] for text in compared))),
        common=len(common),
    )


def _in_order(clusters: Iterable[Cluster]) -> tuple[Cluster, ...]:
    return tuple(sorted(clusters, key=lambda cluster: _first(cluster.texts[0])))


def _first(text: Text) -> tuple[str, int, str]:
    return _who(text.files[0])


def _who(one: Submission) -> tuple[str, int, str]:
    return one.student, one.attempt, one.source


def _parties(files: Iterable[Submission]) -> frozenset[frozenset[str]]:
    by_source: dict[str, set[str]] = defaultdict(set)
    for one in files:
        by_source[one.source].add(one.student)
    return frozenset(map(frozenset, by_source.values()))


def _common(texts: Iterable[Text], own: Mapping[str, frozenset[int]], many: float) -> frozenset[int]:
    """The fingerprints that more than so many different people have."""
    holders: Counter[int] = Counter()
    by_person: dict[frozenset[str], set[int]] = defaultdict(set)
    for text in texts:
        for party in text.parties:
            by_person[party] |= own.get(text.sha256, frozenset())
    for found in by_person.values():
        holders.update(found)
    return frozenset(value for value, number in holders.items() if number > many)


def _crowds(
    texts: Sequence[Text], own: Mapping[str, frozenset[int]], common: frozenset[int], share: float, many: float
) -> Iterator[Cluster]:
    """Groups of more than so many people whose texts would be alike if nothing were left out as common."""
    found = {text.sha256: own.get(text.sha256, frozenset()) for text in texts}
    held = {text: len(found[text.sha256] & common) for text in texts}
    alone = {text: None for text in texts if held[text] >= FEWEST}
    leaders = [text for text in alone if held[text] >= share * len(found[text.sha256])]
    for leader in leaders[:MOST_LEADERS]:  # in the order of digests: as if drawn by lot
        if leader not in alone:
            continue
        first = found[leader.sha256]
        shares = {
            text: len(first & found[text.sha256]) / min(len(first), len(found[text.sha256]))
            for text in alone
            if text is not leader
        }
        crowd = [text for text, much in shares.items() if much >= share]
        alike = [text for text in crowd if text.is_of_others_than(leader)]
        if not alike:
            continue
        nearest = max(sorted(alike, key=_first), key=shares.__getitem__)
        first_two = sorted((leader, nearest), key=_first)
        least, greatest = min(map(shares.__getitem__, crowd)), max(map(shares.__getitem__, crowd))
        members = tuple(sorted([leader, *crowd], key=_first))
        cluster = Cluster(members, least, greatest, (first_two[0], first_two[1]))
        if cluster.people > many:
            for text in members:
                del alone[text]
            yield cluster


def _clusters(texts: Sequence[Text], left: Mapping[str, frozenset[int]], share: float) -> list[Cluster]:
    pairs = _pairs(texts, left, share)
    leader = list(range(len(texts)))

    def leader_of(place: int) -> int:
        while leader[place] != place:
            leader[place] = place = leader[leader[place]]
        return place

    for one, other in pairs:
        leader[leader_of(one)] = leader_of(other)
    grouped: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for pair in pairs:
        grouped[leader_of(pair[0])].append(pair)
    clusters = []
    for members in grouped.values():
        places = sorted({place for pair in members for place in pair})
        found = sorted((texts[place] for place in places), key=lambda text: _who(text.files[0]))
        near = min(members, key=lambda pair: (-pairs[pair], pair))
        shares = [pairs[pair] for pair in members]
        nearest = sorted((texts[near[0]], texts[near[1]]), key=lambda text: _who(text.files[0]))
        clusters.append(Cluster(tuple(found), min(shares), max(shares), (nearest[0], nearest[1])))
    return clusters


def _pairs(texts: Sequence[Text], left: Mapping[str, frozenset[int]], share: float) -> dict[tuple[int, int], float]:
    """Of different people, with how much of the shorter one's fingerprints the longer one has."""
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
        (one, other): number / least
        for (one, other), number in sorted(shared.items())
        if number >= share * (least := min(sizes[one], sizes[other])) and texts[one].is_of_others_than(texts[other])
    }
