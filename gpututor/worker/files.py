"""Files that a submission wrote: sent by the worker that ran it, and opened in another worker."""

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
"""Name of pickled code in the errors of torch.load."""
_KINDS = ((stat.S_ISREG, "a file"), (stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"))


def remove_written(scratch: Path, names: list[str], own: str) -> None:
    """Remove files of earlier calls before a call. `own` is the submission's file."""
    for name in names:
        with contextlib.suppress(OSError):
            if name != own:
                (scratch / name).unlink()


def collect_files(scratch: Path, names: list[str], sizes: Sizes, own: str) -> tuple[dict[str, Any], list[bytes]]:
    """Return a listing of the scratch folder, and the contents of those of `names` that are ordinary files.

    They have at most `sizes.result_bytes` together; a larger file is listed as `a file of … bytes`, without content.
    """
    folder = _list_folder(scratch, own)
    listed: list[str] = []
    contents: list[bytes] = []
    free_bytes = min(sizes.result_bytes, FILES_BYTES)
    for name in names:
        try:
            with open(scratch / name, "rb", opener=ordinary_and_no_link) as stream:
                content = stream.read(free_bytes + 1)
                size_bytes = os.fstat(stream.fileno()).st_size
        except OSError:
            continue  # not written, or not an ordinary file: the check reports it by the listing
        if len(content) > free_bytes:
            folder[name] = f"a file of {size_bytes:,} bytes; {free_bytes:,} are left of the limit"
            continue
        free_bytes -= len(content)
        folder[name] = "a file"
        listed.append(name)
        contents.append(content)
    return {"files": listed, "folder": dict(islice(folder.items(), MOST_NAMES))}, contents


def _list_folder(scratch: Path, own: str) -> dict[str, str]:
    """Return the kind of each entry by name, for at most half of `MOST_NAMES` entries."""
    listed: dict[str, str] = {}
    with contextlib.suppress(OSError), os.scandir(scratch) as entries:
        for entry in islice(entries, MOST_NAMES + 1):
            if entry.name != own and len(listed) < MOST_NAMES // 2:
                name = os.fsencode(entry.name).decode("utf-8", "replace")[:LONGEST_NAME]
                listed[escape_control_chars(name)] = _kind(entry)
    return dict(sorted(listed.items()))


def _kind(entry: os.DirEntry[str]) -> str:
    with contextlib.suppress(OSError):
        mode = entry.stat(follow_symlinks=False).st_mode
        return next((word for test, word in _KINDS if test(mode)), "not an ordinary file")
    return "gone"


def load_files(frame: Frame, sizes: Sizes) -> tuple[dict[str, Any], list[bytes]]:
    """Return the answer to `open`: the values in a file, or the reason why it cannot be opened."""
    (content,) = frame.buffers
    try:
        value, locations = _OPENERS[frame.header["how"]](content)
        encoder = Encoder(most_bytes=sizes.result_bytes)
        return {"event": "opened", "refusal": "", "output": encoder.pack(value), "places": locations}, encoder.buffers
    except ValueRefused as refused:
        refusal = str(refused).replace("the result", "the file")
    except Exception as error:
        refusal = _explain_refusal(frame.header["how"], error)
    nothing = Encoder().pack(None)
    return {"event": "opened", "refusal": refusal[:400], "output": nothing, "places": []}, []


def _open_torch(content: bytes) -> tuple[Any, list[str]]:
    locations: dict[str, None] = {}

    def note_location(storage: Any, location: str) -> Any:
        locations[str(location)[:40]] = None
        return storage

    value = torch.load(io.BytesIO(content), map_location=note_location, weights_only=True)
    return value, list(locations)[:MOST_NAMES]


def _open_safetensors(content: bytes) -> tuple[Any, list[str]]:
    from safetensors.torch import load  # only needed for these files

    return load(content), []


_OPENERS = {"torch": _open_torch, "safetensors": _open_safetensors}


def _explain_refusal(how: str, error: Exception) -> str:
    message = str(error)
    if how == "safetensors":
        return f"it is not a safetensors file: {message}"
    if code := _CODE.search(message):
        return f"it has pickled code ({code[1]}), which gpututor does not run: it reads only tensors and plain values"
    if message.startswith("Weights only load failed"):
        return "it is not a checkpoint written by torch.save, and gpututor unpickles nothing else"
    first = message.strip().splitlines()[0] if message.strip() else ""
    return f"it is not a checkpoint that torch.load can read ({type(error).__name__}: {first[:150]})"
