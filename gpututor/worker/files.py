"""Files that a submission wrote: brought back from the worker that ran it, and opened in another one."""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from gpututor.files import ordinary_and_no_link
from gpututor.protocol.encode import Encoder
from gpututor.protocol.frames import Frame
from gpututor.protocol.messages import FILES_BYTES, LONGEST_NAME, MOST_NAMES, Sizes
from gpututor.protocol.values import ValueRefused
from gpututor.text import escape_control_chars

_CODE = re.compile(r"GLOBAL ([\w.]+)")
"""How torch.load names what a pickle would have called."""
_KINDS = ((stat.S_ISREG, "a file"), (stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"))


def remove_written(scratch: Path, names: list[str], own: str) -> None:
    """Before a call: what one before it wrote is not this one's. `own` is the submission's file."""
    for name in names:
        with contextlib.suppress(OSError):
            if name != own:
                (scratch / name).unlink()


def written(scratch: Path, names: list[str], sizes: Sizes, own: str) -> tuple[dict[str, Any], list[bytes]]:
    """What a call left in its scratch folder, and the contents of those of `names` that are ordinary files.

    All together are at most `sizes.result_bytes`; a file that is over it is left out, and told as `a file of … bytes`.
    """
    folder = _listed(scratch, own)
    found: list[str] = []
    contents: list[bytes] = []
    room = min(sizes.result_bytes, FILES_BYTES)
    for name in names:
        try:
            with open(scratch / name, "rb", opener=ordinary_and_no_link) as stream:
                content = stream.read(room + 1)
                size_bytes = os.fstat(stream.fileno()).st_size
        except OSError:
            continue
        if len(content) > room:
            folder[name] = f"a file of {size_bytes:,} bytes, where all may have {room:,}"
            continue
        room -= len(content)
        folder[name] = "a file"
        found.append(name)
        contents.append(content)
    return {"files": found, "folder": dict(islice(folder.items(), MOST_NAMES))}, contents


def _listed(scratch: Path, own: str) -> dict[str, str]:
    """By name; not more than will be told."""
    listed: dict[str, str] = {}
    with contextlib.suppress(OSError), os.scandir(scratch) as entries:
        for entry in islice(entries, MOST_NAMES + 1):
            if entry.name != own and len(listed) < MOST_NAMES // 2:
                listed[escape_control_chars(os.fsencode(entry.name).decode("utf-8", "replace")[:LONGEST_NAME])] = _kind(
                    entry
                )
    return dict(sorted(listed.items()))


def _kind(entry: os.DirEntry[str]) -> str:
    with contextlib.suppress(OSError):
        mode = entry.stat(follow_symlinks=False).st_mode
        return next((word for test, word in _KINDS if test(mode)), "no ordinary file")
    return "gone"


def load_files(frame: Frame, sizes: Sizes) -> tuple[dict[str, Any], list[bytes]]:
    """The answer to `open`: the values that a file holds, or why it cannot be opened, in words."""
    (content,) = frame.buffers
    try:
        value, places = _OPENERS[frame.header["how"]](content)
        packer = Encoder(most_bytes=sizes.result_bytes)
        return {"event": "opened", "refusal": "", "output": packer.pack(value), "places": places}, packer.buffers
    except ValueRefused as refused:
        words = str(refused).replace("the result", "the file")
    except Exception as error:
        words = _words(frame.header["how"], error)
    nothing = Encoder().pack(None)
    return {"event": "opened", "refusal": words[:400], "output": nothing, "places": []}, []


def _open_torch(content: bytes) -> tuple[Any, list[str]]:
    places: dict[str, None] = {}

    def noted(storage: Any, location: str) -> Any:
        places[str(location)[:40]] = None
        return storage

    value = torch.load(io.BytesIO(content), map_location=noted, weights_only=True)
    return value, list(places)[:MOST_NAMES]


def _open_safetensors(content: bytes) -> tuple[Any, list[str]]:
    from safetensors.torch import load  # only who opens one pays for it

    return load(content), []


_OPENERS = {"torch": _open_torch, "safetensors": _open_safetensors}


def _words(how: str, error: Exception) -> str:
    said = str(error)
    if how == "safetensors":
        return f"it is no safetensors file: {said}"
    if code := _CODE.search(said):
        return f"it holds pickled code ({code[1]}), which nobody runs: only tensors and plain values are read"
    if said.startswith("Weights only load failed"):
        return "it is no checkpoint as torch.save writes it, and nobody unpickles anything else"
    first = said.strip().splitlines()[0] if said.strip() else ""
    return f"it is no checkpoint that torch.load can read ({type(error).__name__}: {first[:150]})"
