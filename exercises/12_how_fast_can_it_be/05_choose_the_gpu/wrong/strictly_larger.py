# fails: value
# Refuses a memory that is exactly as large as the job.
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
        hours = hours_on(job, gpu)
        if gpu["memory_bytes"] <= job["memory_bytes"]:
            continue
        if hours > job["deadline_hours"]:
            continue
        dollars = hours * gpu["dollars_per_hour"]
        options.append({"name": gpu["name"], "hours": hours, "dollars": dollars})
    return min(options, key=lambda option: option["dollars"], default=None)
