"""Choose the GPU: the cheapest that holds a job and meets a deadline."""


def hours_on(job: dict, gpu: dict) -> float:
    """Hours of all steps of the job on a GPU."""
    step_s = max(
        job["flops"] / gpu["peak_flops"], job["bytes"] / gpu["bandwidth"]
    )
    return job["steps"] * step_s / job["efficiency"] / 3600


def choose(job: dict, gpus: list[dict]) -> dict | None:
    """Name the cheapest GPU that will do, with its hours and dollars.

    None if no GPU has the memory and meets the deadline.
    """
    options = []
    for gpu in gpus:
        hours = hours_on(job, gpu)
        if gpu["memory_bytes"] < job["memory_bytes"]:
            continue
        if hours > job["deadline_hours"]:
            continue
        dollars = hours * gpu["dollars_per_hour"]
        options.append(
            {"name": gpu["name"], "hours": hours, "dollars": dollars}
        )
    return min(
        options, key=lambda option: option["dollars"], default=None
    )


if __name__ == "__main__":
    gpus = [
        {
            "name": "T4",
            "peak_flops": 65e12,
            "bandwidth": 320e9,
            "memory_bytes": 16 << 30,
            "dollars_per_hour": 0.35,
        },
        {
            "name": "H100",
            "peak_flops": 989e12,
            "bandwidth": 3.35e12,
            "memory_bytes": 80 << 30,
            "dollars_per_hour": 7.0,
        },
    ]
    job = {
        "steps": 100_000,
        "flops": 4e12,
        "bytes": 20e9,
        "memory_bytes": 9 << 30,
        "efficiency": 0.4,
    }
    for deadline in (48.0, 6.0, 1.0):
        print(deadline, choose({**job, "deadline_hours": deadline}, gpus))
