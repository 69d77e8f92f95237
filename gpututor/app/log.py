"""A log of what should not have happened, for a report to the authors."""

from __future__ import annotations

from datetime import UTC, datetime

from gpututor.paths import log_file


def write_log(error: BaseException) -> None:
    """Append `error` with its traceback to the log; a log that cannot be written is no reason to stop."""
    import contextlib
    import traceback

    lines = "".join(traceback.format_exception(error))
    with contextlib.suppress(OSError):
        path = log_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(f"{datetime.now(UTC).isoformat(timespec='seconds')}\n{lines}\n")
