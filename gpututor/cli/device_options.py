"""Options that choose the device of a run; without them the settings decide, then `auto`."""

from __future__ import annotations

import argparse
import sys

from gpututor.errors import UsageError
from gpututor.hardware.scenario import ACCELERATORS, DEVICE_WORDS
from gpututor.text import escape_control_chars

_REAL = ("cpu", *ACCELERATORS)


class _Model(argparse.Action):
    """Option for the model that also stores which of its two names was used."""

    def __call__(self, _: object, namespace: argparse.Namespace, values: object, option: str | None = None) -> None:
        namespace.gpu, namespace.gpu_option = values, option


def add_device_arguments(parser: argparse.ArgumentParser, *, several_gpus: bool = False) -> None:
    """Add `--device`, `--model` and `--gpus`; see `settle_device` for their defaults."""
    parser.add_argument("--device", help=f"auto (the default), {DEVICE_WORDS}")
    model_help = "the model of the virtual GPU, such as T4 or H100"
    metavar = "NAME"
    if several_gpus:
        model_help, metavar = "the models of the virtual GPU to run on, one after the other", "NAME[,NAME…]"
    parser.add_argument("--model", "--gpu", dest="gpu", action=_Model, metavar=metavar, help=model_help)
    parser.add_argument("--gpus", type=int, metavar="N", help="number of virtual GPUs, 0 to 8")


def settle_device(arguments: argparse.Namespace, *, by_settings: bool = False) -> str:
    """Fill in device and model, with the settings if `by_settings`; describe what they gave. Raises `UsageError`.

    Options of the virtual GPU select it, even if there is a real one.
    """
    is_virtual = bool(_virtual_options(arguments))
    from_settings = _take_settings(arguments) if by_settings else []
    arguments.device = arguments.device or "auto"
    if is_virtual and arguments.device == "auto":
        arguments.device = "virtual"
    if _is_real(arguments.device) and (options := _virtual_options(arguments)):
        title = f"{options[0]} is for the virtual GPU, not for --device {arguments.device}."
        raise UsageError(title, f"Leave out {options[0]}, or say --device virtual.")
    return f"{' '.join(from_settings)}, as your settings say" if from_settings else ""


def check_one_model(arguments: argparse.Namespace, verb: str) -> None:
    """Raise `UsageError` for an unknown model, and for several models with a verb that runs on one."""
    if arguments.gpu is None:
        return
    if "," in arguments.gpu:
        title = f"{arguments.gpu_option}: {verb} takes one GPU, not {arguments.gpu!r}."
        raise UsageError(title, "Name one, such as T4 or H100.")
    from gpututor.hardware.gpus import gpu_spec

    gpu_spec(arguments.gpu)


def print_settings(words: str) -> None:
    """Print on stderr what comes from the settings, if anything."""
    if words:
        print(f"gpututor: {words}", file=sys.stderr, flush=True)


def _take_settings(arguments: argparse.Namespace) -> list[str]:
    """Take from the settings what no option sets or contradicts; return the equivalent options."""
    from gpututor import paths
    from gpututor.settings import Settings, read_settings

    reading = read_settings(paths.settings_file())
    for fault in reading.faults:
        print(f"gpututor: {escape_control_chars(fault)}", file=sys.stderr)
    chosen, taken = reading.settings, []
    is_for_real = _is_real(chosen.device) and any(_virtual_options(arguments))
    if arguments.device is None and chosen.device != Settings().device and not is_for_real:
        arguments.device = chosen.device
        taken.append(f"--device {chosen.device}")
    if arguments.gpu is None and chosen.requested_gpu is not None and not _is_real(arguments.device or "auto"):
        arguments.gpu = chosen.requested_gpu
        taken.append(f"--model {chosen.requested_gpu}")
    return taken


def _is_real(device: str) -> bool:
    return device.partition(":")[0] in _REAL


def _virtual_options(arguments: argparse.Namespace) -> list[str]:
    options = [(getattr(arguments, "gpu_option", "--model"), "gpu"), ("--gpus", "gpus"), ("--memory", "memory")]
    options += [("--no-values", "no_values"), ("--real-time", "real_time")]
    given = {name: getattr(arguments, name, None) for _, name in options}
    return [option for option, name in options if given[name] is not None and given[name] is not False]
