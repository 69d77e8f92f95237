"""Read the meters: what work holds, its peak, and what stays cached."""

from collections.abc import Callable

import torch


def meters_around(
    work: Callable[[], torch.Tensor], device: torch.device
) -> dict[str, int]:
    """Bytes on `device` for one piece of work; see `read_the_meters`."""
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    result = work()
    held = torch.cuda.memory_allocated(device) - before
    peak = torch.cuda.max_memory_allocated(device) - before
    del result
    allocated = torch.cuda.memory_allocated(device)
    reserved = torch.cuda.memory_reserved(device)
    torch.cuda.empty_cache()
    return {
        "held": held,
        "peak": peak,
        "kept": allocated - before,
        "cached": reserved - allocated,
        "given_back": reserved - torch.cuda.memory_reserved(device),
    }


def read_the_meters(
    works: list[Callable[[], torch.Tensor]], device: torch.device
) -> list[dict[str, int]]:
    """Five memory figures of `device` for each work, in bytes.

    "held", "peak" and "kept" count from what was there before the work;
    "cached" and "given_back" do not.
    """
    return [meters_around(work, device) for work in works]


if __name__ == "__main__":

    def some_work() -> torch.Tensor:
        """20 MiB in between, 10 MiB as a result."""
        scratch = torch.zeros(20 << 20, dtype=torch.uint8, device="cuda")
        return scratch[: 10 << 20].clone()

    if torch.cuda.is_available():
        torch.cuda.init()
        gpu = torch.device("cuda", 0)
        for report in read_the_meters([some_work, some_work], gpu):
            for name, size in report.items():
                print(f"{name} {size / 2**20:.1f} MiB", end="  ")
            print()
    else:
        print("There is no GPU here, so there are no meters to read.")
