"""Read the meters: what a piece of work holds, what it held at its peak, and what stays cached."""

from collections.abc import Callable

import torch


def read_the_meters(works: list[Callable[[], torch.Tensor]], device: torch.device) -> list[dict[str, int]]:
    """For each work, bytes on `device`: held, peak and kept above what was there before; cached; given back."""
    reports = []
    for work in works:
        work()
        # TODO: read the meters at the right moments.
        reports.append({"held": 0, "peak": 0, "kept": 0, "cached": 0, "given_back": 0})
    return reports


if __name__ == "__main__":

    def some_work() -> torch.Tensor:
        """20 MiB in between, 10 MiB as a result."""
        scratch = torch.zeros(20 << 20, dtype=torch.uint8, device="cuda")
        return scratch[: 10 << 20].clone()

    if torch.cuda.is_available():
        for report in read_the_meters([some_work, some_work], torch.device("cuda", 0)):
            print(", ".join(f"{name} {size / 2**20:.1f} MiB" for name, size in report.items()))
    else:
        print("There is no GPU here, so there are no meters to read.")
