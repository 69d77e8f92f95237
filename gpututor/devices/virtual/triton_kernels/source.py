"""Kernels as Python functions that can be interpreted.

A kernel's source is compiled again, with its own file name and line numbers. Each assigned value becomes a Triton
tensor, as in Triton's compiler. Each loop iteration is counted, so the deadline stops a kernel that never ends.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

from gpututor.devices.virtual.triton_kernels.triton_private import check_globals

_TENSOR, _TURN = "__to_tensor", "__turn"
_known: weakref.WeakKeyDictionary[FunctionType, Any] = weakref.WeakKeyDictionary()


class _Interpretable(ast.NodeTransformer):
    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if len(node.targets) > 1:
            raise ValueError("simultaneous multiple assignment is not supported.")  # triton/compiler/code_generator.py
        node.value = _call(_TENSOR, node.value)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(_call(_TURN)))
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(_call(_TURN)))
        return node


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def interpretable(fn: FunctionType, to_tensor: Callable[[Any], Any], turn: Callable[[], None]) -> Callable[..., Any]:
    """Return the function `fn` for the interpreter.

    Raises `ValueError` if its source is unknown, and Triton's `NameError` for a plain value of its module.
    """
    made = _known.get(fn)
    if made is None or fn.__closure__:
        check_globals(fn)
        made = _known[fn] = _compile(fn, to_tensor, turn)
    return made


def _compile(fn: FunctionType, to_tensor: Callable[[Any], Any], turn: Callable[[], None]) -> Callable[..., Any]:
    try:
        lines, first = inspect.getsourcelines(fn)
    except OSError as error:
        raise ValueError("@jit functions should be defined in a Python file") from error  # triton/runtime/jit.py
    tree = ast.parse(textwrap.dedent("".join(lines)))
    definition = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    definition.decorator_list = []
    definition.returns = None
    arguments = definition.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    _Interpretable().visit(definition)
    free = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    # An outer function provides the names that are not in the module.
    given = {_TENSOR: to_tensor, _TURN: turn, **{name: cell.cell_contents for name, cell in free.items()}}
    outer = ast.FunctionDef(
        "__around",
        ast.arguments([], [ast.arg(name) for name in given], None, [], [], None, []),
        [definition, ast.Return(ast.Name(definition.name, ast.Load()))],
        [],
    )
    if hasattr(outer, "type_params"):
        outer.type_params = []
    module = ast.Module([outer], [])
    ast.increment_lineno(definition, first - 1)
    ast.fix_missing_locations(module)
    names: dict[str, Any] = {}
    exec(compile(module, fn.__code__.co_filename, "exec"), fn.__globals__, names)
    made: Any = names["__around"](**given)
    made.__defaults__, made.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
    made.__qualname__ = fn.__qualname__
    return made  # type: ignore[no-any-return]
