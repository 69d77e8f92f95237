# fails: value
# If the cheapest GPU is late, pays for the fastest.
def hours_on(job: dict, gpu: dict) -> float:
    """Hours of all steps of the job on a GPU."""
    step_s = max(job["flops"] / gpu["peak_flops"], job["bytes"] / gpu["bandwidth"])
    return job["steps"] * step_s / job["efficiency"] / 3600


def choose(job: dict, gpus: list[dict]) -> dict | None:
    """The name, the hours and the dollars of the cheapest GPU that will do.

    None if no GPU has the memory and meets the deadline.
    """
    options = []
    for gpu in gpus:
        if gpu["memory_bytes"] >= job["memory_bytes"]:
            hours = hours_on(job, gpu)
            options.append({"name": gpu["name"], "hours": hours, "dollars": hours * gpu["dollars_per_hour"]})
    for rule in ("dollars", "hours"):
        best = min(options, key=lambda option: option[rule], default=None)
        if best is not None and best["hours"] <= job["deadline_hours"]:
            return best
    return None
