# Keeps the best GPU so far, and finds by intensity and ridge which of the two rates counts.
def seconds_of_a_step(job, gpu):
    if job["flops"] * gpu["bandwidth"] >= job["bytes"] * gpu["peak_flops"]:
        return job["flops"] / gpu["peak_flops"]
    return job["bytes"] / gpu["bandwidth"]


def choose(job, gpus):
    best = None
    for gpu in gpus:
        hours = job["steps"] * seconds_of_a_step(job, gpu) / job["efficiency"] / 3600
        dollars = hours * gpu["dollars_per_hour"]
        fits = gpu["memory_bytes"] >= job["memory_bytes"] and hours <= job["deadline_hours"]
        if fits and (best is None or dollars < best["dollars"]):
            best = {"name": gpu["name"], "hours": hours, "dollars": dollars}
    return best
