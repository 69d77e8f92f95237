# attacks: scores
# tries: to switch the recorder off for copies home, by a way that counts no switch
# ends: needs review
# isolation: both
# policy: class
import gc


def scores(table, queries, device):
    on_device = table.to(device), queries.to(device)
    result = (on_device[0] @ on_device[1].T).relu()
    recorders = [item for item in gc.get_objects() if type(item).__name__ == "Recorder"]
    for recorder in recorders:
        vars(recorder)["enabled"] = False
    on_device[0].cpu(), on_device[1].cpu()
    for recorder in recorders:
        vars(recorder)["enabled"] = True
    return result
