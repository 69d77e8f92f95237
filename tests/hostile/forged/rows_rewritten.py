# attacks: hurry
# tries: to write other times into the trace, the streams and the host's clock
# ends: needs review, failed
# isolation: both
import gc

import torch


def slow(matrix):
    for _ in range(8):
        product = matrix
        for _ in range(20):
            product = torch.tanh(product @ matrix)
    return product


def chain(matrix):
    result = slow(matrix)
    for item in gc.get_objects():
        if type(item).__name__ == "HostClocks":
            host = item
        if type(item).__name__ == "CallMeasurement":
            measurement = item
        if type(item).__name__ == "Trace" and len(item):
            trace = item
    machine = measurement._meter._machine
    machine.clock.finish()
    began = measurement.span["started"]
    for index, event in enumerate(trace):
        if event.start >= began:
            trace.set_times(index, began + index, began + index + 1)
    for timeline in machine.clock.gpus:
        for stream in vars(timeline).get("streams", {}).values():
            stream.free_at = began
    host.now = began + 1000
    return result
