"""Patches of Python and of torch's other modules."""

from __future__ import annotations

import asyncio
import queue
import threading
from multiprocessing.pool import ThreadPool
from typing import Any

import torch
import torch.backends.cudnn.rnn

from gpututor.devices.virtual import cuda_errors, threads
from gpututor.devices.virtual.api import (
    attention_layers,
    compile,
    jit,
    optimizers,
    streams,
    tensor_types,
    unsupported,
)
from gpututor.devices.virtual.api.backward import run_backward
from gpututor.devices.virtual.api.unsupported import unsupported_stub
from gpututor.devices.virtual.clock import python_time
from gpututor.devices.virtual.clock.python_time import FUNCTIONS, PERF_COUNTER
from gpututor.devices.virtual.distributed import c10d_private, child_processes, comm, process_group_nccl
from gpututor.devices.virtual.operators import autocast, custom_operators, recurrent, special
from gpututor.devices.virtual.patches.patch import Patch, patch_all
from gpututor.devices.virtual.tensors import dlpack, module_to, serialization, storage, subclasses, tensor
from gpututor.devices.virtual.threads import real_wait as _wait

MODULES: tuple[Patch, ...] = (
    *patch_all(
        "torch.optim.optimizer",
        "parameters are updated together (`foreach`), as on CUDA",
        _foreach_supported_types=optimizers.FOR_OPTIMIZERS,
    ),
    *patch_all(
        "torch.utils._foreach_utils",
        "gradients are clipped together (`foreach`), as on CUDA",
        _foreach_supported_types=optimizers.FOR_GRADIENTS,
    ),
    *patch_all(
        "torch._C",
        "C++ names the devices of virtual tensors in its own way",
        _group_tensors_by_device_and_dtype=optimizers.group_by_device_and_dtype,
    ),
    *patch_all(
        "torch.autograd.profiler.record_function",
        "ranges for a profiler; without a profiler, each costs as much as four small operators",
        __enter__=optimizers.enter_range,
        __exit__=optimizers.leave_range,
    ),
    *patch_all("torch.nn.Module", "a parameter becomes virtual in place", _apply=module_to.apply_to_tensors),
    *patch_all(
        "torch.nn.TransformerEncoderLayer",
        "CUDA's fused layer uses the mask and ignores `is_causal`",
        _sa_block=attention_layers.attend,
    ),
    *patch_all(
        "torch.nn.MultiheadAttention",
        "CUDA's fused attention gives NaN where everything is masked",
        forward=attention_layers.multi_head,
    ),
    *patch_all(
        "torch.nn.TransformerEncoder",
        "CUDA's fused layers leave out the padding",
        forward=attention_layers.encode,
    ),
    *patch_all(
        "torch.nn.parameter.UninitializedTensorMixin",
        "a parameter without a shape remembers its device",
        device=module_to.device,
        is_cuda=module_to.is_cuda,
        materialize=module_to.materialize,
    ),
    *patch_all(
        "torch.nn.parameter.UninitializedParameter",
        "C++ cannot make a parameter of a virtual tensor",
        __new__=module_to.new_parameter,
        __deepcopy__=module_to.deep_copy,
    ),
    *patch_all(
        "torch.nn.parameter.UninitializedBuffer",
        "C++ cannot make a buffer of a virtual tensor",
        __new__=module_to.new_buffer,
    ),
    *patch_all(("torch", "torch._higher_order_ops"), "would be traced for a compiler", cond=compile.cond),
    *patch_all(
        # Newer versions have it in `torch` too.
        ("torch._higher_order_ops", *(["torch"] if hasattr(torch, "while_loop") else [])),
        "would be traced for a compiler",
        while_loop=compile.while_loop,
    ),
    *patch_all("torch", "flex attention compiles its own kernel", compile=compile.compile),
    *patch_all("torch.compiler", "would look for CUDA graphs", cudagraph_mark_step_begin=compile.mark_step),
    *patch_all("torch.export", "would look into the memory of constants", export=compile.export),
    *patch_all(
        "torch._C",
        "torch._dynamo.reset imports it if there is a GPU",
        _cuda_CUDAAllocator_AllocatorState=unsupported_stub("torch.cuda memory pools of compiled graphs"),
    ),
    *patch_all(
        "torch.backends.cudnn",
        "recurrent layers would tell the learner to rebuild PyTorch",
        is_acceptable=recurrent.is_acceptable,
    ),
    *patch_all("torch.backends.cudnn.rnn", "a CPU build lacks the enumeration", get_cudnn_mode=recurrent.cudnn_mode),
    *patch_all(
        "torch", "recurrent layers keep their weights in one buffer on CUDA", _use_cudnn_rnn_flatten_weight=lambda: True
    ),
    *patch_all(
        "torch._C._nn", "a number as a device needs a build with an accelerator", _parse_to=unsupported.parse_to
    ),
    *patch_all(
        "torch",
        "autocast for CUDA has kernels and a cache of casts of its own",
        set_autocast_enabled=autocast.set_enabled,
        clear_autocast_cache=autocast.clear_cache,
    ),
)


_DISTRIBUTED: tuple[Patch, ...] = (
    *patch_all(
        "torch._C._distributed_c10d",
        "a CPU build has no hash of nccl's tensors, which TORCH_DISTRIBUTED_DEBUG=DETAIL logs",
        _hash_tensors=process_group_nccl.hash_tensors,
    ),
    *patch_all(
        "torch.distributed.Logger",
        "DDP calls it before each forward pass; it would warn that this device's times are not collected",
        set_runtime_stats_and_log=lambda logger: None,
    ),
    *patch_all(
        ("torch.distributed", "torch.distributed.distributed_c10d"),
        "nccl is missing in a CPU build and refuses without real GPUs in a CUDA build: gloo carries the values",
        is_nccl_available=lambda: True,
        ProcessGroupNCCL=process_group_nccl.VirtualNccl,
    ),
    *patch_all(
        ("torch.distributed", "torch.distributed.distributed_c10d", "torch.distributed.device_mesh"),
        "gloo's groups cannot be split here: a part of a group becomes a group of its own",
        split_group=process_group_nccl.split_group,
    ),
    *patch_all(
        "torch.distributed.distributed_c10d",
        "a CPU build has no timeout for nccl",
        default_pg_nccl_timeout=process_group_nccl.NCCL_TIMEOUT,
    ),
)

DISTRIBUTED: tuple[Patch, ...] = (
    *patch_all(
        "torch._C",
        "copies among GPUs, as in DataParallel: a CPU build lacks them, a CUDA build wants real GPUs",
        _broadcast=comm.broadcast,
        _broadcast_out=comm.broadcast_out,
        _broadcast_coalesced=comm.broadcast_coalesced,
        _scatter=comm.scatter,
        _scatter_out=comm.scatter_out,
        _gather=comm.gather,
        _gather_out=comm.gather_out,
    ),
    *patch_all(
        "torch._C",
        "programs read it before they use bfloat16",
        _nccl_version=process_group_nccl.nccl_version,
        _nccl_version_suffix=lambda: b"",
    ),
    *patch_all(
        "torch.cuda.nccl",
        "its functions are unsupported: without them, torch adds the tensors itself",
        is_available=lambda tensors: False,
    ),
    *patch_all(
        "torch.nn.parallel._functions",
        "it remembers streams for the life of the process",
        _get_stream=streams.current_stream,
    ),
    *patch_all("torch._C", "FSDP calls it before it starts", _log_api_usage_once=unsupported.log_api_usage_once),
    *patch_all(
        "multiprocessing.spawn",
        "children are on a machine like their parent's",
        get_preparation_data=child_processes.get_preparation_data,
    ),
    *(_DISTRIBUTED if c10d_private.HAS_DISTRIBUTED else ()),
)


SAVING: tuple[Patch, ...] = (
    *patch_all(
        ("torch", "torch.serialization"),
        "files in CUDA's format, with the device of each storage",
        save=serialization.save,
        load=serialization.load,
    ),
    *patch_all(
        "torch._utils",
        "tensors are made on the device of their storage; the values have conjugate and negative bits too",
        _rebuild_tensor=serialization.rebuild_tensor,
        set_tensor_metadata=serialization.set_metadata,
    ),
    *patch_all(
        "torch.storage._StorageBase",
        "a map_location function moves storages with these",
        cuda=serialization.storage_to_gpu,
        to=serialization.storage_to,
    ),
    *patch_all(
        "torch.jit",
        "a trace contains its convolutions, and files are read on the CPU first",
        trace=jit.trace,
        trace_module=jit.trace_module,
        load=jit.load,
        freeze=jit.freeze,
        optimize_for_inference=jit.optimize_for_inference,
    ),
    *patch_all("torch.jit._recursive", "scripts are compiled from torch's own code", make_stub=jit.make_stub),
    *patch_all(
        # `ScriptModule`, the class of traces, has copies of `RecursiveScriptModule`'s methods.
        ("torch.jit.ScriptModule", "torch.jit.RecursiveScriptModule"),
        "C++ would read memory that virtual tensors do not have",
        code=jit.code,
        save=jit.save,
        save_to_buffer=jit.save_to_buffer,
        _save_for_lite_interpreter=jit.save_for_mobile,
        _save_to_buffer_for_lite_interpreter=jit.save_for_mobile,
    ),
    *patch_all("torch._C.Graph", "it names devices in C++'s words", __str__=jit.graph_text, __repr__=jit.graph_repr),
    *patch_all(
        "torch._C.ScriptMethod", "the interpreter's errors name devices in C++'s words", __call__=jit.method_call
    ),
    *patch_all(
        "torch.jit.ScriptFunction",
        "C++ would read memory that virtual tensors do not have",
        __call__=jit.function_call,
        save=jit.function_save,
        save_to_buffer=jit.function_save_to_buffer,
    ),
)


TENSORS: tuple[Patch, ...] = (
    *patch_all(("torch", "torch.utils.dlpack"), "C++ would export the device as meta", to_dlpack=dlpack.to_dlpack),
    *patch_all(
        "torch._C",
        "the same functions under the names that reach C++; torch.from_dlpack calls the last",
        _to_dlpack=dlpack.to_dlpack,
        _to_dlpack_versioned=dlpack.to_dlpack_versioned,
        _from_dlpack=dlpack.from_dlpack,
    ),
    *patch_all(
        "torch.nn.Parameter",
        "it would lose the user's class on a device",
        __new__=staticmethod(subclasses.own_parameter),
    ),
    *patch_all("torch.nested", "would fail an assertion in C++", nested_tensor=unsupported.nested_tensor),
    *patch_all(
        "torch",
        "a device's type is a default dtype and device",
        set_default_tensor_type=tensor_types.set_default_tensor_type,
    ),
    *patch_all("torch", "their messages would name the device as C++ does", **tensor_types.HOST_TENSOR_TYPES),
    *patch_all("torch.Tensor", "C++ does not know the storage of a virtual tensor", set_=special.set_on_host),
    *patch_all(
        "torch.TypedStorage",
        "the copy of a storage may be on a virtual GPU",
        _new_wrapped_storage=storage.new_wrapped_storage,
    ),
    *patch_all("torch", "the storage of a virtual tensor is a storage too", is_storage=storage.is_storage),
    *patch_all("warnings", "warnings would name a file of gpututor", _showwarnmsg=cuda_errors.show_warning),
    *patch_all(
        "torch.autograd.function.BackwardCFunction",
        "the engine does not compare the devices of virtual gradients",
        apply=tensor.custom_backward,
    ),
    *patch_all(
        "torch.UntypedStorage",
        "C++ knows no such device",
        __new__=staticmethod(storage.new_storage),
        copy_=storage.copy_on_host,
        _share_cuda_=storage.share_on_host,
    ),
    *patch_all(
        "torch.library.Library",
        "a program must not replace the kernels that compute a GPU's values",
        impl=custom_operators.impl,
        fallback=custom_operators.fallback,
    ),
    *patch_all(
        "torch.library",
        "its fake tensors on a GPU end the process in a build for the CPU",
        opcheck=cuda_errors.refused_function("torch.library.opcheck", "Call it without the virtual GPU."),
    ),
    *patch_all("torch._ops.OperatorBase", "the same method under its other name", py_impl=custom_operators.py_impl),
    *patch_all(
        "torch.autograd", "device names and streams in hooks and custom Functions", _engine_run_backward=run_backward
    ),
)


_CLOCKS = "each thread has a clock; a thread that waited continues no earlier than its object was ready"

_QUEUES = (queue.Queue, queue.LifoQueue, queue.PriorityQueue)

THREADS: tuple[Patch, ...] = (
    *patch_all(
        "threading.Thread",
        "torch's modes belong to one thread, and so does its clock",
        start=threads.thread_start,
        join=threads.thread_join,
        _bootstrap_inner=threads.thread_bootstrap,
    ),
    *patch_all("_thread", "torch's modes belong to one thread", start_new_thread=threads.start_new_thread),
    *patch_all(
        "concurrent.futures.thread._WorkItem", "a pool's threads may be older than the machine", run=threads.run_item
    ),
    *patch_all(
        "multiprocessing.pool.ThreadPool", "a pool's threads may be older than the machine", **threads.POOL_METHODS
    ),
    *patch_all("concurrent.futures.thread.ThreadPoolExecutor", _CLOCKS, submit=threads.submit),
    *patch_all("concurrent.futures._base.Future", _CLOCKS, **threads.FUTURE_METHODS),
    *patch_all(
        "threading.Event",
        _CLOCKS,
        set=threads.event_set,
        wait=threads.event_wait,
        is_set=threads.event_is_set,
        isSet=threads.event_is_set,
    ),
    *patch_all(
        "queue.Queue",
        _CLOCKS,
        get=threads.queue_get,
        put=threads.queue_put,
        task_done=threads.task_done,
        join=threads.queue_join,
    ),
    *(row for kind in _QUEUES for row in patch_all(f"queue.{kind.__name__}", _CLOCKS, **threads.with_times(kind))),
    *patch_all("queue", _CLOCKS, SimpleQueue=threads.SimpleQueue),
)


_REAL_WAIT = "the clock does not follow this wait, and the trace says so"
_Barrier: Any = threading.Barrier
_Condition: Any = threading.Condition
_Semaphore: Any = threading.Semaphore
_EventLoop: Any = asyncio.BaseEventLoop

TIME: tuple[Patch, ...] = (
    *patch_all("time", "learner code reads and moves the host's clock", **FUNCTIONS),
    *patch_all("timeit", "torch.utils.benchmark looks it up at each reading", default_timer=PERF_COUNTER),
    *patch_all("timeit.Timer", "its default is the clock at import", __init__=python_time.timer_init),
    *patch_all("threading.Condition", _REAL_WAIT, wait=_wait(_Condition.wait), wait_for=_wait(_Condition.wait_for)),
    *patch_all("threading.Barrier", _REAL_WAIT, wait=_wait(_Barrier.wait)),
    *patch_all(
        "threading.Semaphore", _REAL_WAIT, acquire=_wait(_Semaphore.acquire), __enter__=_wait(_Semaphore.acquire)
    ),
    *patch_all("multiprocessing.pool.ThreadPool", _REAL_WAIT, __init__=_wait(ThreadPool.__init__)),
    *patch_all("asyncio.base_events.BaseEventLoop", _REAL_WAIT, run_forever=_wait(_EventLoop.run_forever, False)),
)
"""Patches for a machine with `virtual_time`."""
