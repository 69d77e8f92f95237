"""`gpututor trace` of small programs, in a child process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

LIMIT_S = 120
TRAIN = """\
import sys
import torch

print("given", sys.argv[1:])
weights = torch.zeros(256, 256, device="cuda")
for batch in torch.ones(12, 256, 256):
    loss = (batch.cuda() @ weights).sum()
    print(loss.item())
"""
"""A program with five lines of output; line 7 copies and computes, line 8 waits."""


def trace(folder: Path, *words: object, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `gpututor trace` with these words in `folder`."""
    command = [sys.executable, "-m", "gpututor", "trace", *map(str, words)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        cwd=folder,
        input=stdin,
        env={**os.environ, **environment},
    )


def trace_script(
    folder: Path, source: str, *options: str, arguments: Iterable[object] = (), stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `gpututor trace` on `script.py` with this source in `folder`."""
    (folder / "script.py").write_text(source)
    return trace(folder, *options, "script.py", *arguments, stdin=stdin)
