# attacks: patience
# tries: memory that no process owns, under /dev/shm
# ends: error, failed, timeout, out of memory
# isolation: bubblewrap
import pathlib


def scores(table, queries, device):
    for number in range(4):
        pathlib.Path(f"/dev/shm/hostile-{number}").write_bytes(bytes(150 << 20))
    return None
