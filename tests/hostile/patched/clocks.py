# attacks: scores
# tries: to stop every clock that Python has
# ends: failed, needs review
# isolation: both
import time

for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
    setattr(time, name, lambda: 0.0)
    setattr(time, f"{name}_ns", lambda: 0)


def scores(table, queries, device):
    return (table.to(device) @ queries.to(device).T).relu()
