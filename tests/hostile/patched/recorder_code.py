# attacks: scores
# tries: to exchange the code of the recorder's method, which stays the same object
# ends: failed, error, needs review
# isolation: both
from gpututor.devices.recorder import Recorder


def nothing(self, *arguments, **named):
    return -1


def scores(table, queries, device):
    on_device = table.to(device), queries.to(device)
    Recorder.transfer.__code__ = nothing.__code__
    return (on_device[0].cpu() @ on_device[1].cpu().T).relu().to(device)
