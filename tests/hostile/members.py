"""The files of the suite, and what the first lines of each say about it.

- `# attacks:` an exercise of the course, or of the tiny course in `course/`;
- `# tries:` what the file does;
- `# ends:` the right outcomes, with commas between them;
- `# isolation:` `both` or `bubblewrap`;
- `# device:` `virtual` unless given;
- `# file name:` what the learner called the file;
- `# policy:` `class` if only the static reading notices the file. It is then graded as in a class. All others are
  graded as a learner's own file, so that the reading hides no other failure;
- `# open:` why the file does not end so yet. This is a known hole: the tests expect it, and fail once it is closed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpututor.grading.report import Outcome

FOLDER = Path(__file__).parent
HONEST = "honest"
KINDS = ("forged", "patched", "stealing", "fake", "resources", "text", HONEST)
ISOLATIONS = {"both": ("process", "bubblewrap"), "bubblewrap": ("bubblewrap",)}

_LINE = re.compile(r"# (attacks|tries|ends|isolation|device|file name|policy|open): (.+)")
_MORE = re.compile(r"#   (.+)")


@dataclass(frozen=True)
class Member:
    """A file of the suite."""

    kind: str
    name: str
    text: str
    attacks: str
    tries: str
    ends: frozenset[Outcome]
    isolations: tuple[str, ...]
    device: str
    file_name: str
    is_of_class: bool
    """True to grade it like a class: names in its source may need a review."""
    open: str
    """Reason why it does not end as expected yet; empty if it does."""

    @property
    def id(self) -> str:
        return f"{self.kind}-{self.name}"


def members() -> list[Member]:
    """Return all files, kind by kind. Raises `ValueError` if the first lines of a file lack a field."""
    return [read_member(path) for kind in KINDS for path in sorted((FOLDER / kind).glob("*.py"))]


def read_member(path: Path) -> Member:
    """Return the member in the file at `path`."""
    text = path.read_text(encoding="utf-8")
    said = _said(text)
    missing = {"attacks", "tries", "ends", "isolation"} - said.keys()
    if missing:
        raise ValueError(f"{path}: its first lines do not say {', '.join(sorted(missing))}")
    return Member(
        kind=path.parent.name,
        name=path.stem,
        text=text,
        attacks=said["attacks"],
        tries=said["tries"],
        ends=frozenset(Outcome(word.strip()) for word in said["ends"].split(",")),
        isolations=ISOLATIONS[said["isolation"]],
        device=said.get("device", "virtual"),
        file_name=said.get("file name", path.name),
        is_of_class=said.get("policy") == "class",
        open=said.get("open", ""),
    )


def _said(text: str) -> dict[str, str]:
    said: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if (entry := _LINE.fullmatch(line)) is not None:
            last = entry[1]
            said[last] = entry[2].strip()
        elif (more := _MORE.fullmatch(line)) is not None and last:
            said[last] += f" {more[1].strip()}"
    return said
