"""Gradescope's YAML: the needed part is read, and oversized or malformed files are refused."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from gpututor.classroom.intake import gradescope_metadata
from gpututor.classroom.intake.gradescope_metadata import GradescopeSubmission, Submitter, submissions_of
from gpututor.errors import UsageError


def read(text: str | bytes) -> dict[str, GradescopeSubmission]:
    return submissions_of(io.BytesIO(text if isinstance(text, bytes) else text.encode()), {"submission_1"})


def bombs() -> Iterator[tuple[str, str]]:
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for number in range(1, 12):
        laughs += f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]\n"
    yield laughs, "aliases of aliases are too large"
    yield "a: &a [*a]\n", "an alias of a missing or enclosing anchor"
    yield "a: *b\n", "an alias of a missing|undefined alias"
    yield "[" * 500, "nested more than 64 deep|not a table"
    yield "a: " + "[" * 500, "nested more than 64 deep"
    yield "- a\n- b\n", "it is not a table of submissions"
    yield "", "it is not a table of submissions"
    yield "a: [1, 2\n", "line "
    yield "a: \x07\n", "special characters are not allowed|control characters"
    yield "a: !!python/object/apply:os.system ['true']\nb: {: : :\n", "line "


@pytest.mark.parametrize(("text", "message"), list(bombs()))
@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
def test_malformed_metadata_is_refused(monkeypatch: pytest.MonkeyPatch, text: str, message: str, loader: str) -> None:
    import yaml

    monkeypatch.setattr(yaml, "CSafeLoader", getattr(yaml, loader), raising=False)
    with pytest.raises(UsageError, match=message) as raised:
        read(text)
    assert raised.value.title.startswith("submission_metadata.yml: ")


def test_a_large_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradescope_metadata, "LARGEST", 1 << 20)
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        read("a: " + "x" * (2 << 20))


def test_values_are_text_and_earlier_submissions_have_their_own_time() -> None:
    text = """\
---
submission_2:
  :submitters:
  - &1
    :name: "Kim: \\u202e Roe"
    :sid: 0123
    :email: ~
  :created_at: &2 2026-04-26 17:34:00.861687000 Z
  :results: [*1, {x: y}]
submission_3:
  submitters: [*1]
  created_at: *2
  score: 2
submission_4: none
submission_5:
  :submitters: {x: y}
  :created_at: yesterday
  :history: 3
"""
    kim = Submitter("Kim: \u202e Roe", "0123", "")
    assert read(text) == {
        "submission_2": GradescopeSubmission((kim,), "2026-04-26T17:34:00+00:00", 0, "submission_2"),
        "submission_3": GradescopeSubmission((kim,), "2026-04-26T17:34:00+00:00", 0, "submission_3"),
        "submission_5": GradescopeSubmission((), "", 0, "submission_5"),
    }
    history = "".join(f"  - :id: {number}\n    :created_at: 2026-04-2{number} 10:00:00 +0200\n" for number in (0, 1, 2))
    text = f"submission_9:\n  :submitters: []\n  :created_at: 2026-05-01 00:00:00 Z\n  :history:\n{history}"
    assert read(text) == {
        "submission_1": GradescopeSubmission((), "2026-04-21T08:00:00+00:00", 1, "submission_9"),
        "submission_9": GradescopeSubmission((), "2026-05-01T00:00:00+00:00", 2, "submission_9"),
    }
    active = "2026-04-21 12:00:00 Z"
    assert read(text.replace("2026-05-01 00:00:00 Z", active))["submission_9"].earlier == 1
