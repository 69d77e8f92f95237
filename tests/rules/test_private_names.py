"""PyTorch's private functions are used in few files, which each new version of torch has to be checked for."""

from __future__ import annotations

import ast

import torch

from tests.support import ROOT

DEVICES = ROOT / "gpututor" / "devices"
VIRTUAL = DEVICES / "virtual"
PLACES = (
    VIRTUAL / "torch_private.py",
    VIRTUAL / "compiler" / "pt2_private.py",
    VIRTUAL / "distributed" / "c10d_private.py",
)
# Slow to import, and needed for one call: it is imported there.
LATE = {"torch._dynamo.types"}
# The documented way to write a dispatch mode, for all its name.
DOCUMENTED = {"torch.utils._python_dispatch"}


def _dotted(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Attribute):
        return [*_dotted(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else [""]


def _is_private(parts: list[str]) -> bool:
    if parts[0] != "torch" or parts[1:2] == ["ops"] or (len(parts) == 2 and hasattr(torch.ops.aten, parts[1])):
        return False  # an operator, whatever its name
    return any(part.startswith("_") and not part.endswith("__") for part in parts)


def _private_names(source: str) -> list[str]:
    used = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and _is_private(parts := _dotted(node)):
            used.append(f"line {node.lineno}: {'.'.join(parts)}")
        elif isinstance(node, ast.ImportFrom) and node.module and _is_private(node.module.split(".")):
            used += [] if node.module in LATE | DOCUMENTED else [f"line {node.lineno}: from {node.module}"]
    return used


def test_private_functions_of_torch_are_reached_in_few_files() -> None:
    used = {
        str(path.relative_to(DEVICES)): names
        for path in DEVICES.rglob("*.py")
        if path not in PLACES and (names := _private_names(path.read_text(encoding="utf-8")))
    }
    assert used == {}


def test_a_private_function_elsewhere_would_be_seen() -> None:
    assert _private_names("import torch\ntorch._C._broadcast(1)") != []
    assert _private_names("from torch._utils import _take_tensors") != []
    assert _private_names("import torch\ntorch._foreach_add_([], 1)\ntorch.ops.aten._to_copy") == []
