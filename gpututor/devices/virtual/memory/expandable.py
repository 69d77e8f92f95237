"""Expandable segments: a segment takes addresses for all of a GPU's memory, and maps pages to them as it grows.

Blocks of such a segment that have no pages are `unmapped`: they are neither free nor in use. Two free blocks whose
addresses follow each other can merge. So a request of a new size does not fragment the memory.

Source: c10/cuda/CUDACachingAllocator.cpp (try_allocate_expandable_block, map_block, unmap_block).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator

from gpututor.devices.virtual.memory.pool import LARGE_SEGMENT, SMALL_SEGMENT, Block, Pool


def page_of(pool: Pool) -> int:
    """Return the bytes of a page of the pool's expandable segments."""
    return SMALL_SEGMENT if pool.is_small else LARGE_SEGMENT


def add_expandable_segment(pool: Pool, address: int, size_bytes: int) -> None:
    block = Block(pool, address, size_bytes, None, None)
    block.is_free, block.is_mapped = False, False
    pool.segments[address], pool.expands = block, True


def run_for(pool: Pool, size_bytes: int) -> list[Block]:
    """Return adjacent blocks without storages that have addresses for `size_bytes`, the lowest first; else nothing."""
    for block in _unmapped(pool):
        before = block.before
        first = before if before is not None and before.is_free else block
        run, length = list[Block](), 0
        next_block: Block | None = first
        while next_block is not None and length < size_bytes and (next_block.is_free or not next_block.is_mapped):
            run.append(next_block)
            length += next_block.size
            next_block = next_block.after
        if length >= size_bytes:
            return run
    return []


def bytes_to_map(run: list[Block], size_bytes: int, page: int) -> int:
    """Return the bytes of the pages that a run lacks for a block of `size_bytes`."""
    return sum(_missing(run, size_bytes, page).values())


def map_pages(pool: Pool, run: list[Block], size_bytes: int, page: int) -> Block:
    """Map the pages that a run lacks, and return the free block to which it is merged."""
    missing = _missing(run, size_bytes, page)
    for index, block in enumerate(run):
        if block.is_free:
            pool.forget(block)
        elif missing[index] < block.size:
            _split(block, missing[index])
        block.is_free, block.is_mapped = True, True
    first, last = run[0], run[-1]
    pool.reserved += sum(missing.values())
    first.size = last.address + last.size - first.address
    first.after = last.after
    if first.after is not None:
        first.after.before = first
    insort(pool.free, (first.size, first.address, first))
    return first


def unmap_free_pages(pool: Pool) -> list[tuple[int, int]]:
    """Return the whole pages of all free blocks to the driver; return (address, bytes) of each range."""
    page, released = page_of(pool), list[tuple[int, int]]()
    if not pool.expands:
        return released
    for _, _, block in list(pool.free):
        if not _is_expandable(block):
            continue
        start = -(-block.address // page) * page
        end = (block.address + block.size) // page * page
        if end <= start:
            continue
        pool.forget(block)
        if start > block.address:
            rest = block
            block = _split(rest, start - rest.address)
            insort(pool.free, (rest.size, rest.address, rest))
        if end < block.address + block.size:
            tail = _split(block, end - block.address)
            tail.is_free, tail.is_mapped = True, True
            insort(pool.free, (tail.size, tail.address, tail))
        block.is_free, block.is_mapped = False, False
        pool.reserved -= block.size
        released.append((block.address, block.size))
        _merge_unmapped(block)
    return released


def _missing(run: list[Block], size_bytes: int, page: int) -> dict[int, int]:
    """Return the bytes to map in each block of a run, by its position."""
    missing, left = dict[int, int](), size_bytes
    for index, block in enumerate(run):
        missing[index] = 0 if block.is_free else min(-(-left // page) * page, block.size)
        left -= block.size
    return missing


def _unmapped(pool: Pool) -> Iterator[Block]:
    for first in pool.segments.values():
        block: Block | None = first
        while block is not None:
            if not block.is_mapped:
                yield block
            block = block.after


def _is_expandable(block: Block) -> bool:
    """Return True if the block is in a segment that ends in addresses without pages."""
    while block.after is not None:
        block = block.after
    return not block.is_mapped


def _split(block: Block, size_bytes: int) -> Block:
    """Cut a block to `size_bytes`; return the rest, without pages."""
    rest = Block(block.pool, block.address + size_bytes, block.size - size_bytes, block, block.after)
    rest.is_free, rest.is_mapped = False, False
    if block.after is not None:
        block.after.before = rest
    block.after, block.size = rest, size_bytes
    return rest


def _merge_unmapped(block: Block) -> None:
    """Merge an unmapped block with its unmapped neighbors."""
    for left, right in ((block, block.after), (block.before, block)):
        if left is None or right is None or left.is_mapped or right.is_mapped:
            continue
        left.size += right.size
        left.after = right.after
        if right.after is not None:
            right.after.before = left
