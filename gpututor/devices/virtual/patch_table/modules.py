"""Modules, optimisers, autocast and compilers."""

from __future__ import annotations

import torch

from gpututor.devices.virtual.face import devices as cuda
from gpututor.devices.virtual.face import refusals
from gpututor.devices.virtual.face.refused import refused
from gpututor.devices.virtual.modules import autocast, compiling, control_flow, encoders, lazy, optimisers
from gpututor.devices.virtual.modules import moving as modules
from gpututor.devices.virtual.patch_table.rows import each
from gpututor.devices.virtual.patches import Patch

PATCHES: tuple[Patch, ...] = (
    *each(
        "torch.optim.optimizer",
        "parameters are updated together, as on CUDA",
        _foreach_supported_types=optimisers.FOR_OPTIMISERS,
    ),
    *each(
        "torch.utils._foreach_utils",
        "gradients are clipped together, as on CUDA",
        _foreach_supported_types=optimisers.FOR_GRADIENTS,
    ),
    *each(
        "torch._C",
        "C++ names the devices of virtual tensors in its own way",
        _group_tensors_by_device_and_dtype=optimisers.group_by_device_and_dtype,
    ),
    *each(
        "torch.autograd.profiler.record_function",
        "marks ranges for a profiler; without one, each costs as much as four small operators",
        __enter__=optimisers.enter_range,
        __exit__=optimisers.leave_range,
    ),
    *each("torch.nn.Module", "a parameter becomes virtual in place", _apply=modules.apply_to_tensors),
    *each(
        "torch.nn.TransformerEncoderLayer",
        "the fused layer of CUDA goes by the mask, whatever `is_causal` says",
        _sa_block=encoders.attend,
    ),
    *each(
        "torch.nn.parameter.UninitializedTensorMixin",
        "a parameter without a shape remembers its device",
        device=lazy.device,
        is_cuda=lazy.is_cuda,
        materialize=lazy.materialize,
    ),
    *each(
        "torch.nn.parameter.UninitializedParameter",
        "C++ cannot make a parameter of a virtual tensor",
        __new__=lazy.new_parameter,
        __deepcopy__=lazy.deep_copy,
    ),
    *each(
        "torch.nn.parameter.UninitializedBuffer",
        "C++ cannot make a buffer of a virtual tensor",
        __new__=lazy.new_buffer,
    ),
    *each("torch", "would be traced for a compiler", cond=control_flow.cond),
    *each("torch._higher_order_ops", "the same by its other name", cond=control_flow.cond),
    *each("torch._higher_order_ops", "would be traced for a compiler", while_loop=control_flow.while_loop),
    # Newer versions have it here too.
    *(
        [Patch("torch", "while_loop", control_flow.while_loop, "the same by its newer name")]
        if hasattr(torch, "while_loop")
        else []
    ),
    *each("torch", "would fail inside the compiler", compile=compiling.compile),
    *each(
        "torch.compiler",
        "nothing is compiled, and they would look for CUDA graphs",
        reset=compiling.reset,
        cudagraph_mark_step_begin=compiling.mark_step_begin,
    ),
    *each("torch.export", "would look into the memory of constants", export=compiling.export),
    *each(
        "torch._C",
        "what torch._dynamo.reset imports where there is a GPU",
        _cuda_CUDAAllocator_AllocatorState=refused("torch.cuda memory pools of compiled graphs"),
    ),
    *each(
        "torch.backends.cudnn",
        "recurrent layers would tell the learner to rebuild PyTorch",
        is_acceptable=cuda.cudnn_is_acceptable,
    ),
    *each("torch._C._nn", "a number as a device needs a build with an accelerator", _parse_to=refusals.parse_to),
    *each(
        "torch",
        "autocast for CUDA has kernels of its own here, and casts to remember",
        set_autocast_enabled=autocast.set_enabled,
        clear_autocast_cache=autocast.clear_cache,
    ),
)
