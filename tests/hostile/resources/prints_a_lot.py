# attacks: scores
# tries: sixty-four mebibytes of text on both streams
# ends: failed
# isolation: both
import sys


def scores(table, queries, device):
    for _ in range(512):
        sys.stdout.write("x" * (64 << 10))
        sys.stderr.write("y" * (64 << 10))
    return (table.to(device) @ queries.to(device).T).relu()
