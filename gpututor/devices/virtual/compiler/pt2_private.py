"""All private names of Dynamo, AOTAutograd and Inductor. Imported at the first compilation only: it takes seconds."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import sympy
import torch._dynamo
import torch._functorch.config
import torch._inductor.compile_fx
import torch._inductor.config
from torch._decomp import decomposition_table, meta_table, pre_autograd_decomposition_table
from torch._dynamo import convert_frame, device_interface, symbolic_convert, trace_rules, utils
from torch._dynamo.mutation_guard import GenerationTracker
from torch._dynamo.variables import ConstantVariable, builder, optimizer, torch_function, user_defined
from torch._functorch._aot_autograd import runtime_wrappers, schemas
from torch._guards import CompileContext, TracingContext
from torch._inductor import codecache, compile_fx, cudagraph_utils, dependencies, graph, ir, scheduler
from torch._inductor.debug import DebugContext
from torch._inductor.fx_passes import joint_graph
from torch._inductor.fx_passes.post_grad import view_to_reshape
from torch._inductor.runtime.hints import DeviceProperties, ReductionHint
from torch._inductor.utils import get_dtype_size, get_fused_kernel_name, shape_env_from_inputs, sympy_product
from torch._inductor.virtualized import V
from torch._prims_common import suggest_memory_format
from torch._subclasses import fake_tensor, meta_utils
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_leaves, tree_map

__all__ = [
    "builder",
    "compile_fx",
    "convert_frame",
    "fake_tensor",
    "get_fused_kernel_name",
    "joint_graph",
    "map_aggregate",
    "scheduler",
    "suggest_memory_format",
    "trace_rules",
    "utils",
]

from gpututor.devices.virtual.api import compile as control_flow
from gpututor.devices.virtual.operator_registry import operator_of
from gpututor.trace.events import UNCOMPILED

FakeTensor: Any = fake_tensor.FakeTensor
FakeTensorMode: Any = fake_tensor.FakeTensorMode
META_HANDLERS: Any = fake_tensor._DISPATCH_META_HANDLERS
PRIM_DEVICE: Any = torch.ops.prim.device.default
CacheBase: Any = codecache.CacheBase
FunctionState: Any = torch_function.SymbolicTorchFunctionState
Describer: Any = meta_utils.MetaTensorDescriber
CudaInterface: Any = device_interface.CudaInterface
wrap_tensor: Any = builder.VariableBuilder.wrap_tensor
META_KEY: Any = torch._C.DispatchKey.Meta
OpOverload: Any = torch._ops.OpOverload
HigherOrderOperator: Any = torch._ops.HigherOrderOperator
JOINT_PASSES = "_recursive_joint_graph_passes"
ConstantFolder: Any = joint_graph.UniformValueConstantFolder
OptimizerVariable: Any = optimizer.OptimizerVariable
UserClass: Any = user_defined.UserDefinedClassVariable
constant: Any = ConstantVariable.create
CPP: Any = torch._C
CONVOLUTION: Any = torch.ops.aten.convolution.default
AOT_CONFIG: Any = schemas.AOTConfig
BACKWARD_AT_ONCE = "force_non_lazy_backward_lowering"
LOG_BREAK = "log_graph_break"
BREAK_LOGGER: Any = (
    symbolic_convert if hasattr(symbolic_convert, LOG_BREAK) else symbolic_convert.InstructionTranslatorBase
)
real_log_break: Any = getattr(BREAK_LOGGER, LOG_BREAK)
RECOMPILE_REASONS = "get_and_maybe_log_recompilation_reasons"
real_recompile_reasons: Any = getattr(convert_frame, RECOMPILE_REASONS)
real_compile_fx: Any = compile_fx.compile_fx


def type_dispatch() -> dict[Any, Any]:
    """Return Dynamo's table of the classes of values; the same object at each call."""
    table: dict[Any, Any] = builder.VariableBuilder._type_dispatch()
    return table


def forget_device_properties() -> None:
    """Make Inductor ask for the properties of the GPU again."""
    DeviceProperties.create.cache_clear()


for _stand_in in (control_flow.cond, control_flow.while_loop):
    # Dynamo captures PyTorch's own function.
    _module = importlib.import_module(f"torch._higher_order_ops.{_stand_in.__name__}")
    torch.compiler.substitute_in_graph(_stand_in, skip_signature_check=True)(getattr(_module, _stand_in.__name__))

_FLEX_ATTENTION: Any = torch.ops.higher_order.flex_attention
_UNPRICED = ("cond", "while_loop", "triton_kernel_wrapper_mutation", "triton_kernel_wrapper_functional")
_COLLECTIVES = ("c10d", "symm_mem", "_c10d_functional", "_c10d_functional_autograd")


def copy_of(module: Any) -> Any:
    """Return another module with a copy of the graph; it shares the parameters."""
    nodes = torch.fx.Graph()
    nodes.output(nodes.graph_copy(module.graph, {}))
    for node in nodes.nodes:
        if node.target is _FLEX_ATTENTION:
            node.target = control_flow.eager_flex_attention
    return torch.fx.GraphModule(module, nodes)


def unpriced_operator(module: Any) -> str:
    """Return the name of an operator of the graph whose kernels Inductor's schedule does not list; "" if none."""
    parts = [part for part in module.modules() if isinstance(part, torch.fx.GraphModule)]
    for target in (node.target for part in parts for node in part.graph.nodes):
        if isinstance(target, HigherOrderOperator) and target.name() in _UNPRICED:
            return str(target.name())
        is_packet = isinstance(target, torch._ops.OpOverloadPacket)
        operator = getattr(target, target.overloads()[0]) if is_packet else target
        if isinstance(operator, OpOverload) and _runs_by_itself(operator):
            return str(operator._schema.name)
    return ""


def _runs_by_itself(operator: Any) -> bool:
    """Return True for a custom operator, whose body launches kernels, and for a collective."""
    return operator.namespace in _COLLECTIVES or bool(operator_of(operator).custom)


def has_numbers_from_data(module: Any) -> bool:
    """Return True if a graph computes sizes or numbers that Inductor knows only when the graph runs."""
    given: set[Any] = set()
    computed: set[Any] = set()
    for node in module.graph.nodes:
        for value in tree_leaves(node.meta.get("example_value")):
            if isinstance(value, torch.Tensor | torch.SymInt | torch.SymFloat | torch.SymBool):
                (given if node.op == "placeholder" else computed).update(free_unbacked_symbols(value))
    return bool(computed - given)


def uses_cuda_graphs() -> bool:
    """Return True if Inductor's settings ask for CUDA graphs in every mode."""
    return bool(torch._inductor.config.triton.cudagraphs)


def warns_of_many_sizes(recorded: int) -> bool:
    """Log Inductor's warning if another CUDA graph is recorded for too many sizes; return True if it did."""
    sizes: Any = dict.fromkeys(range(recorded))
    return bool(cudagraph_utils.maybe_warning_due_to_dynamic_shape(sizes, None))


def log_without_cuda_graph(reason: str) -> None:
    """Log that a graph is not replayed, as Inductor does: in its performance hints and its counters."""
    cudagraph_utils.log_cudagraph_skip_and_bump_counter(reason)


def values_in(module: Any) -> list[Any]:
    """Return the values of a captured graph, with stand-ins for tensors."""
    return tree_leaves([node.meta.get("example_value") for node in module.graph.nodes])


def logged_break(given: dict[str, Any]) -> tuple[str, list[Any]] | None:
    """Return the reason and the frames of a graph break from Dynamo's log entry; None if the break was logged before.

    Torch 2.9 and 2.10 log a text and the frames, later versions log an error.
    """
    error = given.get("exc")
    if getattr(error, "logged", False):
        return None
    text = str(getattr(error, "msg", None) or given["reason"].split(":\n\n", 1)[-1]).strip()
    reason = text.partition("\n")[0]
    if (name := re.search(r"builtin operator (`\w+`)", text)) is not None:
        reason += f" {name[1]}"
    if "falling back to eager" in given["reason"]:
        reason += UNCOMPILED
    stack = given.get("user_stack") or getattr(error, "real_stack", None) or TracingContext.extract_stack()
    return reason, list(stack)


def compile_id() -> str:
    """Return the number of the compilation that runs, such as `0/1`."""
    return str(CompileContext.current_compile_id() or "0/0")


def generation() -> int:
    """Return the number of calls of compiled functions so far; a call that runs several graphs counts once."""
    return int(GenerationTracker.generation)


def settings_of_compilation() -> Iterator[AbstractContextManager[None]]:
    """Yield changes of settings: compile the backward graph at once, without caches, other processes or autotuning."""
    settings: tuple[tuple[Any, dict[str, Any]], ...] = (
        (torch._functorch.config, {BACKWARD_AT_ONCE: True, "enable_autograd_cache": False}),
        (
            torch._inductor.config,
            {
                "compile_threads": 1,
                "fx_graph_cache": False,
                "fx_graph_remote_cache": False,
                "shape_padding": False,
                "benchmark_kernel": False,
                "benchmark_fusion": False,
                "benchmark_combo_kernel": False,
            },
        ),
    )
    for config, values in settings:
        yield config.patch({name: value for name, value in values.items() if hasattr(config, name)})
    if not hasattr(torch._functorch.config, BACKWARD_AT_ONCE):  # torch 2.9
        always: Any = property(lambda self: True, lambda self, value: None)
        yield patch.object(AOT_CONFIG, BACKWARD_AT_ONCE, always)


def watch_lowering(look: Callable[[], None]) -> Iterator[AbstractContextManager[None]]:
    """Yield changes that call `look` before each operator that is lowered, and each pair of kernels to be fused."""
    for owner, name in ((graph.GraphLowering, "run_node"), (scheduler.Scheduler, "can_fuse")):
        yield patch.object(owner, name, _after(look, getattr(owner, name)))


def _after(look: Callable[[], None], function: Callable[..., Any]) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        look()
        return function(*args, **kwargs)

    return call


@contextmanager
def scheduled(module: Any, inputs: Sequence[Any], given: dict[str, Any]) -> Iterator[Any]:
    """Yield Inductor's lowered graph with its schedule, as `_InProcessFxCompile.codegen_and_compile` makes it."""
    is_inference = bool(given.get("is_inference"))
    shape_env = getattr(module, "shape_env", None) or shape_env_from_inputs(inputs)
    view_to_reshape(module)
    with torch.no_grad():
        fake_mode = compile_fx.fake_tensor_prop(module, inputs)
    compile_fx._recursive_record_original_output_strides(module)
    with V.set_fake_mode(fake_mode):
        compile_fx._recursive_post_grad_passes(module, is_inference=is_inference)
        with compile_fx.maybe_disable_comprehensive_padding(inputs):
            lowered = graph.GraphLowering(
                module, example_inputs=inputs, shape_env=shape_env, graph_id=given.get("graph_id"),
                is_inference=is_inference, is_backward=bool(given.get("is_backward")),
            )  # fmt: skip
            lowered.freeze_runtime_asserts()
            with V.set_graph_handler(lowered), V.set_extern_kernel_nodes([]), V.set_debug_handler(DebugContext()):
                lowered.run(*inputs)
                lowered._update_scheduler()
                yield lowered


def elements_of(dependency: Any) -> Any:
    """Return the number of elements of a buffer that a loop accesses; infinite if the data decides which elements."""
    return dependency.get_numel() if isinstance(dependency, dependencies.MemoryDep) else sympy.oo


def overlaps(lowered: Any, dependency: Any) -> bool:
    """Return True if a loop reads elements of a buffer several times, because its windows overlap."""
    buffer, loads = _buffer(lowered, dependency.name), elements_of(dependency)
    if buffer is None or loads is sympy.oo:
        return False
    return bool(hint(lowered, loads) > hint(lowered, sympy_product(buffer.get_size())))


def buffer_bytes(lowered: Any, name: str, elements: Any) -> Any:
    """Return the bytes of `elements` of a buffer, at most the bytes of the whole buffer."""
    buffer = _buffer(lowered, name)
    if buffer is None:
        return 0
    length = sympy_product(buffer.get_size())
    return get_dtype_size(buffer.get_dtype()) * (length if elements is sympy.oo else sympy.Min(elements, length))


def _buffer(lowered: Any, name: str) -> Any:
    """Return a buffer by its name; None if it is not a tensor."""
    buffer = lowered.get_buffer(name) if name in lowered.name_to_buffer else lowered.graph_inputs.get(name)
    return buffer if hasattr(buffer, "get_dtype") else None


def kept_buffers(node: Any, names: set[str]) -> set[str]:
    """Return the buffers that a scheduled node writes to memory, because other nodes use them."""
    parts = {*node.get_nodes()}
    buffers = node.scheduler.name_to_buf
    return {name for name in names if any(user.node not in parts for user in buffers[name].users)}


def origin_of(kernel: Any) -> Any:
    """Return the node of the graph whose operator a library's kernel runs; None if the kernel has no such origin."""
    origins = [kernel.get_origin_node(), *kernel.origins]
    origins = [origin for origin in origins if origin is not None and isinstance(origin.target, OpOverload)]
    operator = getattr(kernel, "op_overload", None)
    return next((origin for origin in origins if origin.target is operator), origins[0] if origins else None)


def has_channels_last(kernel: Any) -> bool:
    """Return True if an input of a kernel is a batch of images whose channels are adjacent."""
    for part in getattr(kernel, "inputs", ()):
        layout = getattr(part, "maybe_get_layout", lambda: None)()
        size: list[Any] = [*getattr(layout, "size", ())]
        stride: list[Any] = [*getattr(layout, "stride", ())]
        if len(stride) == 4 and stride[1] == 1 and size[1] != 1:
            return True
    return False


def is_no_kernel(node: Any) -> bool:
    """Return True for a node of the schedule that launches nothing."""
    return isinstance(node, scheduler.NopKernelSchedulerNode) or isinstance(node.node, ir.MultiOutput)


def is_copy_between_devices(node: Any) -> bool:
    return isinstance(node.node, ir.DeviceCopy)


def reduces_inside(node: Any) -> bool:
    """Return True for a reduction along the dimension that is contiguous."""
    return getattr(node.node.data, "reduction_hint", None) in (ReductionHint.INNER, ReductionHint.OUTER_TINY)


def hint(lowered: Any, value: Any) -> Any:
    """Return the value that a symbolic expression had when the graph was captured."""
    variables = lowered.sizevars
    return (getattr(variables, "optimization_hint", None) or variables.size_hint)(value, fallback=0)


def described(values: Any, size: Any) -> Any:
    """Return a node's arguments, with `size(shape, stride, dtype)` for tensors and expressions for symbols."""

    def describe(value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return tree_map(describe, value.meta.get("val"))
        if isinstance(value, torch.Tensor):
            return size(tuple(map(describe, value.shape)), tuple(map(describe, value.stride())), value.dtype)
        return value.node.expr if isinstance(value, torch.SymInt | torch.SymFloat) else value

    return tree_map(describe, values, is_leaf=lambda value: isinstance(value, torch.fx.Node | torch.Tensor))


def obstacle_to_cuda_graph(module: Any, lowered: Any, given: dict[str, Any]) -> str:
    """Return Inductor's reason not to replay the graph as a CUDA graph; "" if there is none."""
    reason = lowered.disable_cudagraphs_reason
    if not reason:
        reason = cudagraph_utils.check_multiple_devices_or_any_cpu_nodes(lowered.device_node_mapping)
    if not reason:
        fixed = set(given.get("static_input_idxs") or ())
        mutated = [index for index in lowered.mutated_input_idxs if index not in fixed]
        reason = f"skipping cudagraphs due to mutated inputs ({len(mutated)} instances)" if mutated else ""
    return str(reason or "")


def written_inputs(count: int) -> tuple[tuple[int, ...], bool]:
    """Return the inputs, of `count`, that a graph writes to and that need gradients afterwards.

    The second value is True if the positions are not enough: an input changes its shape, or overlaps another input.
    """
    context: Any = TracingContext.try_get()
    inputs = context.fw_metadata.input_info if context is not None and context.fw_metadata is not None else ()
    with_gradients = [(position, tensor) for position, tensor in enumerate(inputs) if tensor.requires_grad]
    written = tuple(
        position
        for position, tensor in with_gradients
        if tensor.mutates_data
        and not tensor.mutations_hidden_from_autograd
        and not tensor.mutations_under_no_grad_or_inference_mode
    )
    return written, len(inputs) != count or any(tensor.mutates_metadata for _, tensor in with_gradients)


# Frames of the virtual GPU are not part of a learner's program.
trace_rules.add("gpututor.devices")


_process_tangent: Any = runtime_wrappers.AOTDispatchAutograd.process_runtime_tangent


def accept_tangents(kind: type) -> None:
    """Make AOTAutograd accept gradients of a subclass of tensors in backward passes, as if they were plain tensors."""

    def process_runtime_tangent(tangent: Any, *args: Any, **kwargs: Any) -> Any:
        return (tangent, [tangent]) if type(tangent) is kind else _process_tangent(tangent, *args, **kwargs)

    runtime_wrappers.AOTDispatchAutograd.process_runtime_tangent = staticmethod(process_runtime_tangent)  # type: ignore[method-assign, assignment]


_BROADCAST: Any = torch.ops.aten.broadcast_tensors.default
"""A composite operator whose Python kernel no table lists."""


def _decompose_composites() -> None:
    """Remove the kernels in Python that composite operators have for `meta`.

    A tensor that is captured has a device `meta:0` in C++. With such a kernel, C++ would not decompose the operator
    into differentiable ones, as it does for CUDA.
    """
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    operators = {*meta_table, *decomposition_table, *pre_autograd_decomposition_table, _BROADCAST}
    for operator in operators:
        kernels = getattr(operator, "py_kernels", {})
        if META_KEY in kernels and has_kernel(operator.name(), "CompositeImplicitAutograd"):
            del kernels[META_KEY]
            operator._dispatch_cache.clear()


_decompose_composites()
