# Sorts all GPUs by the price of the job, and takes the first that will do.
def figures(job, gpu):
    compute_s = job["flops"] / gpu["peak_flops"]
    memory_s = job["bytes"] / gpu["bandwidth"]
    seconds = job["steps"] * max(compute_s, memory_s) / job["efficiency"]
    hours = seconds / 3600
    return {
        "name": gpu["name"],
        "hours": hours,
        "dollars": hours * gpu["dollars_per_hour"],
    }


def choose(job, gpus):
    large = [g for g in gpus if g["memory_bytes"] >= job["memory_bytes"]]
    rows = [figures(job, gpu) for gpu in large]
    for row in sorted(rows, key=lambda row: row["dollars"]):
        if row["hours"] <= job["deadline_hours"]:
            return row
    return None
