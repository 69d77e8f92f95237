# attacks: scores
# tries: to answer with a method of its own that sends an empty trace and no memory
# ends: needs review, failed, error
# isolation: both
import gc


def scores(table, queries, device):
    on_device = table.to(device), queries.to(device)
    result = (on_device[0].cpu() @ on_device[1].cpu().T).relu().to(device)
    lines = [item for item in gc.get_objects() if type(item).__name__ == "Connection"]
    for line in lines:
        plain = line.answer

        def answer(header, buffers=(), plain=plain):
            if header.get("event") == "returned":
                header["trace"] = {**header["trace"], **{k: [] for k, v in header["trace"].items() if type(v) is list}}
                header["memory"] = {}
            plain(header, buffers)

        line.answer = answer
    return result
