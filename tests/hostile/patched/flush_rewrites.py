# attacks: born_on_the_device
# tries: a stdout whose flush takes copies out of the trace that is about to be sent
# ends: needs review, failed
# isolation: both
import sys

import torch

plain = sys.stdout


def without_copies(trace):
    length = trace["length"]
    columns = {name: list(v) if isinstance(v, list) else [v] * length for name, v in trace["columns"].items()}
    now, launched = 0, []
    for step in columns["launched"]:
        now += step
        launched.append(now)
    columns["launched"] = launched
    keep = [at for at in range(length) if not (columns["source"][at] and columns["target"][at])]
    columns = {name: [values[at] for at in keep] for name, values in columns.items()}
    columns["launched"] = [b - a for a, b in zip([0, *columns["launched"]], columns["launched"])]
    columns["partner"] = [-1] * len(keep)
    trace |= {"length": len(keep), "columns": columns}


class Out:
    def write(self, text):
        return plain.write(text)

    def flush(self):
        header = sys._getframe(1).f_locals.get("header", {})
        if "trace" in header:
            without_copies(header["trace"])


sys.stdout = Out()


def make_grid(height, width, device):
    down = (torch.arange(height) + 0.5) / height
    right = (torch.arange(width) + 0.5) / width
    return torch.stack(torch.meshgrid(down, right, indexing="ij"), dim=-1).to(device)
