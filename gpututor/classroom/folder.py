"""The folder that `classroom grade --out` makes: every file in it, named in one place."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from gpututor.classroom.handed_in import Class
from gpututor.errors import UsageError
from gpututor.files import ordinary, write_atomically


@dataclass(frozen=True)
class ClassFolder:
    """All that is kept of a class."""

    folder: Path

    @property
    def class_file(self) -> Path:
        """What was handed in, and by whom."""
        return self.folder / "class.json"

    @property
    def journal(self) -> Path:
        """See `gpututor.grading.journal`. The gradebook can be made of it and `class_file` at any time."""
        return self.folder / "journal"

    @property
    def secret_file(self) -> Path:
        """The class secret that seeds are made of."""
        return self.folder / "class.secret"

    @property
    def rules_file(self) -> Path:
        """The instructor's rules, if there are any."""
        return self.folder / "classroom.toml"

    @property
    def options_file(self) -> Path:
        """How the class was graded last: device, GPU, isolation. Who reports finds the keys of the journal by it."""
        return self.folder / "options.json"

    @property
    def lock_file(self) -> Path:
        """Held by who grades; see `gpututor.classroom.lock`."""
        return self.folder / ".lock"

    @property
    def troubles_file(self) -> Path:
        """What could not be graded at the last try, and why; see `gpututor.classroom.batch`."""
        return self.folder / "troubles.json"

    @property
    def gradebook(self) -> Path:
        return self.folder / "gradebook.sqlite3"

    @property
    def exports(self) -> Path:
        return self.folder / "report"

    @property
    def feedback(self) -> Path:
        return self.folder / "feedback"

    @property
    def recordings(self) -> Path:
        """What devices did in gradings that somebody looked at, a folder for each key."""
        return self.folder / "recordings"

    @property
    def replaced(self) -> Path:
        """Entries of the journal and rules that gave way to others, with their dates."""
        return self.folder / "replaced"

    @property
    def submissions(self) -> Path:
        return self.folder / "submissions"

    @property
    def made(self) -> tuple[Path, ...]:
        """Its folders: nothing in them is anybody's but gpututor's."""
        return (self.journal, self.submissions, self.exports, self.feedback, self.recordings, self.replaced)

    def make(self) -> None:
        """For its owner only, where it is not there yet: marks and texts are nobody else's. Raises `OSError`."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def clear_parts(self) -> None:
        """Remove what graders left that were killed while they wrote. Only for who holds the lock. Raises `OSError`."""
        own = (self.class_file, self.secret_file, self.rules_file, self.options_file, self.troubles_file)
        parts = [part for file in own for part in self.folder.glob(f".{file.name}.*.part")]
        parts += [part for made in (self.journal, self.submissions) for part in made.glob("**/.*.part")]
        for part in parts:
            part.unlink(missing_ok=True)

    def submission(self, sha256: str) -> Path:
        """The bytes that were handed in, under their digest: the same text of many students is kept once."""
        return self.submissions / sha256[:2] / f"{sha256}.py"

    def write_class(self, found: Class) -> None:
        write_atomically(self.class_file, json.dumps(found.to_json(), indent=1) + "\n")

    def read_class(self) -> Class:
        """Raises `UsageError` where there is none, or it cannot be read."""
        try:
            with open(self.class_file, encoding="utf-8", opener=ordinary) as stream:
                return Class.from_json(json.load(stream))
        except FileNotFoundError:
            raise UsageError(
                f"{self.folder} holds no class that was graded.", "Grade one with `gpututor classroom grade`."
            ) from None
        except (OSError, ValueError, RecursionError) as error:
            advice = "Move the file away, then grade the class again with --resume, and --course where that is needed."
            raise UsageError(f"{self.class_file}: {error}", advice) from error
