"""Read the meters: what work holds, its peak, and what stays cached."""

from collections.abc import Callable

import torch


def read_the_meters(
    works: list[Callable[[], torch.Tensor]], device: torch.device
) -> list[dict[str, int]]:
    """Five memory figures of `device` for each work, in bytes.

    "held", "peak" and "kept" count from what was there before the work;
    "cached" and "given_back" do not.
    """
    reports = []
    for work in works:
        work()
        # TODO: read the meters at the right moments.
        report = {
            "held": 0,
            "peak": 0,
            "kept": 0,
            "cached": 0,
            "given_back": 0,
        }
        reports.append(report)
    return reports


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
