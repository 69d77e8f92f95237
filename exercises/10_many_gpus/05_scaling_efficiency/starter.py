"""Scaling efficiency: the same work on one GPU and on all of them."""

import time

import torch


def seconds_on(gpus: list[torch.device], batch: torch.Tensor, weight: torch.Tensor) -> float:
    """Seconds from the first launch until all parts of batch @ weight are on the first of `gpus`."""
    # TODO: this uses one GPU only, and looks at the clock before the GPU is done.
    start = time.perf_counter()
    batch.to(gpus[0]) @ weight.to(gpus[0])
    return time.perf_counter() - start


def scaling_efficiency(batch: torch.Tensor, weight: torch.Tensor) -> dict[str, float]:
    """Seconds of batch (n, d) @ weight (d, k) on one GPU and on all, and the efficiency, 1 at the best."""
    gpus = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    one = seconds_on(gpus[:1], batch, weight)
    together = seconds_on(gpus, batch, weight)
    return {"one": one, "all": together, "efficiency": 1.0}


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("This needs a GPU, better two: `gpututor run --gpus 2` has them.")
    else:
        random = torch.Generator().manual_seed(0)
        for rows in (100, 400, 800):
            batch = torch.rand(rows, 300, dtype=torch.float64, generator=random)
            weight = torch.rand(300, 300, dtype=torch.float64, generator=random)
            print(rows, {name: f"{value:.2g}" for name, value in scaling_efficiency(batch, weight).items()})
