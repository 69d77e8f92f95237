"""A program that calls each overload of aten from number `sys.argv[1]` on with odd arguments of valid types."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from gpututor.devices.virtual import virtual_gpu

# Left out: it aborts on the CPU too where its arguments are strange, and the other writes files.
LEFT_OUT = ("aten::_sobol_engine_initialize_state_", "aten::from_file")
_MADE: dict[str, Callable[[bool], Any]] = {
    "square": lambda beside: torch.rand(2, 2, device="cuda"),
    "beside the CPU": lambda beside: torch.rand(2, 2, device="cpu" if beside else "cuda"),
    "whole": lambda beside: torch.arange(4, device="cuda").reshape(2, 2),
    "empty": lambda beside: torch.zeros(0, device="cuda"),
    "of four dimensions": lambda beside: torch.rand(2, 2, 2, 2, device="cuda"),
}
_PLAIN = {"int": 1, "SymInt": 1, "float": 0.5, "bool": True, "number": 1.5, "str": "sum", "ScalarType": torch.float32}


def _argument(kind: str, position: int, made: str) -> Any:
    if kind == "Tensor":
        return _MADE[made](position % 2 == 1)
    if kind.startswith("Optional["):
        return _argument(kind[9:-1], position, made) if made == "square" else None
    if kind.startswith("List["):
        return [_argument(kind[5:-1], position, made)] * 2
    return _PLAIN.get(kind)


def _fault(operator: Any, schema: Any, made: str) -> tuple[str, bool]:
    """Call the operator; return its internal or empty error, or an empty text, and True if the GPU is unusable now."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for position, argument in enumerate(schema.arguments):
        if not argument.kwarg_only:
            positional.append(_argument(str(argument.type), position, made))
        elif argument.name not in ("device", "dtype", "layout", "pin_memory", "generator"):
            named[argument.name] = _argument(str(argument.type), position, made)
    try:
        operator(*positional, **named)
    except (UnboundLocalError, KeyError, AttributeError, AssertionError, RecursionError) as error:
        return f"{type(error).__name__}: {error}", False
    except Exception as error:
        return "" if str(error) else f"{type(error).__name__} without a word", "device-side assert" in str(error)
    return "", False


def main() -> None:
    warnings.simplefilter("ignore")
    schemas = sorted(torch._C._jit_get_all_schemas(), key=lambda schema: (schema.name, schema.overload_name))
    aten = [schema for schema in schemas if schema.name.startswith("aten::")]
    with ExitStack() as stack:
        stack.enter_context(virtual_gpu(2))
        for number, schema in list(enumerate(aten))[int(sys.argv[1]) :]:
            packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"), None)
            operator = getattr(packet, schema.overload_name or "default", None)
            if operator is None or schema.name in LEFT_OUT:
                continue
            for made in _MADE:
                print(f"start {number} {schema.name}.{schema.overload_name} {made}", flush=True)
                fault, is_unusable = _fault(operator, schema, made)
                print(f"end {fault}".replace("\n", " "), flush=True)
                if is_unusable:
                    stack.close()
                    stack.enter_context(virtual_gpu(2))
    print("done", flush=True)


if __name__ == "__main__":
    main()
