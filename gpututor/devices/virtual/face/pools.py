"""Which stream a new one is: CUDA's are taken in turn from pools of 32 for each priority (c10/cuda/CUDAStream.cpp).

So the 33rd stream of a GPU is the first one again, and work on "both" is in order. On the clock and in the trace a
stream has a number: 0 is the default stream, 1 to 32 are those of priority 0, 33 to 64 those of priority -1, and so on.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from gpututor.devices.virtual import errors
from gpututor.devices.virtual.machine import VirtualGpu

STREAMS_PER_POOL = 32
PRIORITIES = 4
"""How many of CUDA's priorities PyTorch uses: 0 to -3 (max_compile_time_stream_priorities)."""
_TYPE_BITS = 4
_HANDLES = 0x5600_0000_0000
_handed_out: WeakKeyDictionary[VirtualGpu, list[int]] = WeakKeyDictionary()


def next_number(gpu: VirtualGpu, priority: int) -> int:
    """The stream that is next in the pool of that priority; raises torch's error for one above 0."""
    if priority > 0:
        raise RuntimeError(f"Expected cuda stream priority to be less than or equal to 0, got {priority}")
    pool = min(-priority, PRIORITIES - 1)
    handed_out = _handed_out.setdefault(gpu, [0] * PRIORITIES)
    turn = handed_out[pool]
    handed_out[pool] = turn + 1
    return 1 + pool * STREAMS_PER_POOL + turn % STREAMS_PER_POOL


def priority_of(number: int) -> int:
    """The priority of a stream: 0, or less for a more urgent one."""
    return 0 if number == 0 else -((number - 1) // STREAMS_PER_POOL)


def id_of(number: int) -> int:
    """`stream_id`: five bits for the place in the pool, four for the priority, and a last bit (Note [StreamId])."""
    if number == 0:
        return 0
    pool, place = divmod(number - 1, STREAMS_PER_POOL)
    return place << (_TYPE_BITS + 1) | (pool + 1) << 1 | 1


def number_of(stream_id: int) -> int:
    """The number on the clock; raises `NotImplementedError` for a stream that another library would have made."""
    if stream_id == 0:
        return 0
    pool, place = (stream_id >> 1 & 0xF) - 1, stream_id >> (_TYPE_BITS + 1)
    if not stream_id & 1 or not 0 <= pool < PRIORITIES or place >= STREAMS_PER_POOL:
        raise errors.unsupported("streams of other libraries", "Make streams by torch.cuda.Stream().")
    return 1 + pool * STREAMS_PER_POOL + place


def handle_of(device_index: int, number: int) -> int:
    """What stands for the pointer of CUDA's own stream: another number for each."""
    return _HANDLES + (device_index << 20) + (number << 8) if number else 0
