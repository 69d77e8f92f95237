# A helper profiles, and the function warms up.
from torch.profiler import profile


def train(model, batch, steps):
    for _ in range(steps):
        model(batch).square().mean().backward()
        model.zero_grad()


def profiled(model, batch):
    with profile() as prof:
        train(model, batch, 3)
    return prof.key_averages()


def top_three(model, batch):
    train(model, batch, 1)
    rows = [row for row in profiled(model, batch) if row.key.startswith("aten::")]
    rows.sort(key=lambda row: row.self_device_time_total, reverse=True)
    return [row.key for row in rows[:3]]
