"""Two files that are programs, loaded again, with the answers of the model in evaluation mode."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import torch
from torch.nn import functional

from gpututor.checks import (
    Call,
    Check,
    Finding,
    Machine,
    Run,
    launches,
    parity,
    placement,
    source,
    structure,
    transfers,
    unmodified,
)

PROGRAMS = {"model.pt2": ("/model.json", "serialized_exported_program.json"), "model.ts": ("/code/", "/code.pkl")}
"""Parts of the program's name in the archive, by file; versions of PyTorch differ, and one part must be there."""
PROGRAM_BYTES = 2**20
"""A program in text is some kilobytes."""


def output(model: dict[str, torch.Tensor], fresh: torch.Tensor) -> torch.Tensor:
    """The classifier written out, with the running statistics and without dropout."""
    hidden = functional.conv2d(fresh, model["0.weight"], model["0.bias"], padding=1)
    mean, deviation = model["1.running_mean"], torch.sqrt(model["1.running_var"] + 1e-5)
    scale, shift = model["1.weight"] / deviation, model["1.bias"] - model["1.weight"] * mean / deviation
    hidden = torch.relu(hidden * scale[:, None, None] + shift[:, None, None])
    return hidden.mean(dim=(2, 3)) @ model["6.weight"].T + model["6.bias"]


def reference(model: dict[str, torch.Tensor], example: torch.Tensor, fresh: torch.Tensor) -> dict[str, torch.Tensor]:
    """Both outputs are the model's."""
    return {"exported": output(model, fresh), "traced": output(model, fresh)}


def parts_of(content: bytes) -> list[str] | None:
    """The names inside a zip file; None if `content` is not a zip file. Nothing is unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            return [f"/{name}" for name in packed.namelist()]
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return None


def one_size(content: bytes) -> bool:
    """Return True if no size of an exported program may vary."""
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        for name in packed.namelist():
            if any(f"/{name}".endswith(end) for end in PROGRAMS["model.pt2"]):
                try:
                    with packed.open(name) as part:
                        return not json.loads(part.read(PROGRAM_BYTES))["range_constraints"]
                except (ValueError, KeyError, TypeError, RecursionError, RuntimeError, NotImplementedError, OSError):
                    return True
    return True


def wrong_file(file: str, call: Call) -> str | None:
    """Return the fault of one of the files, if any."""
    content = call.files.get(file)
    if content is None:
        return f"no file {file} was written"
    parts = parts_of(content)
    if parts is None:
        return f"{file} cannot be opened"
    if not any(wanted in part for part in parts for wanted in PROGRAMS[file]):
        return f"{file} holds no program, only values"
    if file == "model.pt2" and one_size(content):
        return f"the program in {file} takes batches of one size only"
    return None


def find_file(run: Run) -> Finding | None:
    """The first file that is not there, or is something else."""
    for call in run.calls:
        for file in PROGRAMS:
            wrong = wrong_file(file, call)
            if wrong:
                sizes = ", for any number of rows" if file == "model.pt2" else ""
                expected = f"{file}, with the model's program in it{sizes}"
                return Finding(expected, f"{wrong}{run.which(call)}", run.line_of(call))
    return None


def two_states(drawn: dict[str, Any], machine: Machine) -> tuple[int, None]:
    """Copies for the values of both programs, without the count of batches; more copies are allowed.

    `torch.jit.freeze` joins the normalization and the convolution of a trace.
    """
    joined = [name for name in drawn["model"] if not name.startswith("1.")]
    return len(drawn["model"]) - 1 + len(joined), None


def sentence(machine: Machine) -> str:
    return "It writes model.pt2 and model.ts, each with the model's program"


checks = [
    Check(
        "files",
        sentence,
        find_file,
        why="The server of the model has these files and nothing else: not your class.",
        advice="Export with rows that may vary, trace, and save each result under its name. Lesson 9 has the calls.",
        files=tuple(PROGRAMS),
    ),
    source(
        require=("torch.export.load", "torch.jit.load"),
        why="Until you load a file again, you do not know that it works.",
        advice="Load both files with torch.export.load and torch.jit.load, and run the programs that they return.",
    ),
    structure(reference, advice="Return both outputs for `fresh`, one row for each of its rows."),
    placement(
        "device",
        advice="Load with map_location=device, or call .to(device) on what you loaded; move `fresh` there as well.",
    ),
    transfers(
        to_host=0,
        why="Nothing has to come back from the device: you freeze on the CPU and run on the device.",
        advice="Leave what is on the device there; the files are written from the model on the CPU.",
    ),
    transfers(
        name="loaded",
        to_device=two_states,
        why="Loading a program does not show that it runs. Each program has its own weights, which must be on the"
        " device.",
        advice="Move what torch.export.load and torch.jit.load returned to the device. Call that, not the model.",
        on=lambda machine: machine.virtual and machine.gpus > 0,
    ),
    launches(
        by_name={"aten::*conv*": (2, 10)},
        why="Only a file that was loaded and run is known to work.",
        advice="Both outputs come from what was loaded, not from the model: run each of the two on the device.",
        on=lambda machine: machine.virtual and machine.gpus > 0,
    ),
    parity(
        reference,
        why="Freezing keeps the mode: in training mode, dropout and the batch's statistics are frozen, too.",
        advice="Call model.eval() before you export and trace.",
    ),
    unmodified(advice="A model in training mode changes its running statistics whenever it is called or traced."),
]
