"""`python -m tests.hostile [WORD…] [--isolation NAME]`: grade the suite's files, and print how each of them ends."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from gpututor.errors import TutorError
from gpututor.text import escape_control_chars
from tests.hostile.ground import Ground, opened
from tests.hostile.members import Member, members


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile")
    parser.add_argument("word", nargs="*", help="grade only files whose kind or name holds one of these")
    parser.add_argument("--isolation", action="append", choices=("process", "bubblewrap"), help="default: both")
    parser.add_argument("--verbose", action="store_true", help="say what was found")
    arguments = parser.parse_args()
    isolations = arguments.isolation or ["process", "bubblewrap"]
    chosen = [member for member in members() if not arguments.word or any(word in member.id for word in arguments.word)]
    with tempfile.TemporaryDirectory(prefix="hostile.") as folder, opened(Path(folder)) as ground:
        for member in chosen:
            started = time.monotonic()
            words = [_words(ground, member, name, arguments.verbose) for name in isolations]
            words.append(f"{time.monotonic() - started:.1f} s")
            print(f"{member.kind:<10}{member.name:<32}{''.join(f'{word:<24}' for word in words)}", flush=True)


def _words(ground: Ground, member: Member, isolation: str, verbose: bool) -> str:
    if isolation not in member.isolations:
        return "-"
    try:
        report = ground.grade(member, isolation)
    except (AssertionError, TutorError) as error:
        return f"BROKE THE JUDGE ({error})"
    if verbose:
        for verdict in report.verdicts:
            print(
                escape_control_chars(f"    {verdict.scenario}: {verdict.check}: {verdict.status}; {verdict.got}"[:1000])
            )
        print(escape_control_chars(f"    suspicions: {report.suspicions}"))
        for run in report.runs:
            print(escape_control_chars(f"    {run.output[:600]}{run.traceback[-1500:]}"))
        print(f"    {escape_control_chars(report.reason)} {report.elapsed_s} s")
    right = report.outcome in member.ends
    faults = ["NO LONGER OPEN"] * bool(member.open and right)
    faults += [] if right else ["open"] if member.open else ["NOT SO"]
    faults += ["LEAKED"] * ground.leaked(report) + ground.outlived(isolation)
    return " ".join([report.outcome, *faults])


if __name__ == "__main__":
    main()
