# attacks: scores
# tries: to send the bytes of its first, right answer once more, its old ticket included
# ends: needs review, error
# isolation: both
import gpututor.worker.connection as line

write = line.write_encoded
first = []


def replay(stream, text, buffers=()):
    if b'"returned"' in text:
        first or first.append((text, buffers))
        text, buffers = first[0]
    write(stream, text, buffers)


line.write_encoded = replay


def scores(table, queries, device):
    return (table.to(device) @ queries.to(device).T).relu()
