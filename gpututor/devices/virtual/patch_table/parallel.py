"""Several devices and processes."""

from __future__ import annotations

from gpututor.devices.virtual.face import streams
from gpututor.devices.virtual.face.refused import refused_function
from gpututor.devices.virtual.parallel import comm, groups, nccl, refusals, spawning
from gpututor.devices.virtual.patch_table.rows import each
from gpututor.devices.virtual.patches import Patch
from gpututor.devices.virtual.private import process_groups

_DISTRIBUTED: tuple[Patch, ...] = (
    *each(
        "torch.distributed.Logger",
        "it would warn that the times of this kind of device are not collected",
        set_runtime_stats_and_log=refusals.no_times,
    ),
    *each(
        "torch.distributed.distributed_c10d",
        "nccl is missing in a CPU build and refuses without real GPUs in a CUDA build: gloo carries the values",
        is_nccl_available=groups.nccl_is_available,
        ProcessGroupNCCL=groups.VirtualNccl,
        default_pg_nccl_timeout=groups.NCCL_TIMEOUT,
    ),
    *each(
        "torch.distributed",
        "the same by their other names",
        is_nccl_available=groups.nccl_is_available,
        ProcessGroupNCCL=groups.VirtualNccl,
    ),
)

PATCHES: tuple[Patch, ...] = (
    *each(
        "torch._C",
        "copies among GPUs, as DataParallel makes them: a CPU build lacks them, a CUDA build wants real GPUs",
        _broadcast=comm.broadcast,
        _broadcast_out=comm.broadcast_out,
        _broadcast_coalesced=comm.broadcast_coalesced,
        _scatter=comm.scatter,
        _scatter_out=comm.scatter_out,
        _gather=comm.gather,
        _gather_out=comm.gather_out,
    ),
    *each(
        "torch._C",
        "torch.cuda.nccl is thin: these are what its functions call",
        _nccl_all_reduce=nccl.all_reduce,
        _nccl_reduce=nccl.reduce,
        _nccl_broadcast=nccl.broadcast,
        _nccl_all_gather=nccl.all_gather,
        _nccl_reduce_scatter=nccl.reduce_scatter,
        _nccl_version=nccl.version_number,
        _nccl_version_suffix=nccl.version_suffix,
        _nccl_unique_id=refused_function("torch.cuda.nccl.unique_id"),
        _nccl_init_rank=refused_function("torch.cuda.nccl.init_rank"),
    ),
    *each("torch.cuda.nccl", "a CPU build warns that it has no NCCL", is_available=nccl.is_available),
    *each(
        "torch.nn.parallel._functions",
        "it remembers streams for the life of the process",
        _get_stream=streams.current_stream,
    ),
    *each("torch._C", "FSDP names itself here before it starts", _log_api_usage_once=refusals.log_api_usage_once),
    *each(
        "multiprocessing.spawn",
        "children are on a machine like their parent's",
        get_preparation_data=spawning.get_preparation_data,
    ),
    *(_DISTRIBUTED if process_groups.HAS_DISTRIBUTED else ()),
)
