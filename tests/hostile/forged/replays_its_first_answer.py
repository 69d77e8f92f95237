# attacks: scores
# tries: to keep the bytes of its first, right answer and to send them again for every later call
# ends: failed, needs review
# isolation: both
import gpututor.worker.service as service

send = service.write_frame
first = []


def replay(stream, header, buffers=()):
    if header.get("event") == "returned":
        first or first.append((header, buffers))
        header, buffers = first[0]
    send(stream, header, buffers)


service.write_frame = replay


def scores(table, queries, device):
    if first:
        return None
    return (table.to(device) @ queries.to(device).T).relu()
