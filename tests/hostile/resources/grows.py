# attacks: scores
# tries: memory step by step, up to five gibibytes
# ends: out of memory, timeout
# isolation: both
import select


def scores(table, queries, device):
    kept = [b"x" * (64 << 20) for _ in range(80)]
    select.select([], [], [], 20)
    return kept
