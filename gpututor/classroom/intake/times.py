"""Times as platforms write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_NANOSECONDS = re.compile(r"(\.\d{6})\d+")


def as_utc(text: str) -> str:
    """`2026-04-26 17:34:00.861687000 Z` as ISO 8601, in UTC; empty for what is no time, or has no zone."""
    plain = _NANOSECONDS.sub(r"\1", text.strip()).replace(" Z", "+00:00").replace(" UTC", "+00:00")
    plain = re.sub(r" ([+-]\d\d:?\d\d)$", r"\1", plain)
    try:
        when = datetime.fromisoformat(plain)
        return when.astimezone(UTC).isoformat(timespec="seconds") if when.tzinfo else ""
    except (ValueError, OverflowError):
        return ""
