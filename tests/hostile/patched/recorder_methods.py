# attacks: scores
# tries: a recorder whose method for transfers writes nothing from the third on
# ends: failed, needs review
# isolation: both
from gpututor.devices.recorder import Recorder

transfer = Recorder.transfer
seen = []


def two_only(self, *arguments, **named):
    seen.append(1)
    return transfer(self, *arguments, **named) if len(seen) <= 2 else -1


def scores(table, queries, device):
    seen.clear()
    Recorder.transfer = two_only
    on_device = table.to(device), queries.to(device)
    return (on_device[0].cpu() @ on_device[1].cpu().T).relu().to(device)
