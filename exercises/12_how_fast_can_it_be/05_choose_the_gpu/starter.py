"""Choose the GPU: the cheapest that holds a job and meets a deadline."""


def choose(job: dict, gpus: list[dict]) -> dict | None:
    """Name the cheapest GPU that will do, with its hours and dollars.

    None if no GPU has the memory and meets the deadline.
    """
    # TODO: compute the hours on each GPU, and choose by the whole price.
    gpu = max(gpus, key=lambda gpu: gpu["peak_flops"])
    return {"name": gpu["name"], "hours": 0.0, "dollars": 0.0}


if __name__ == "__main__":
    gpu = {
        "name": "T4",
        "peak_flops": 65e12,
        "bandwidth": 320e9,
        "memory_bytes": 16 << 30,
        "dollars_per_hour": 0.35,
    }
    job = {
        "steps": 100_000,
        "flops": 4e12,
        "bytes": 20e9,
        "memory_bytes": 9 << 30,
        "efficiency": 0.4,
        "deadline_hours": 48.0,
    }
    print(choose(job, [gpu]))
