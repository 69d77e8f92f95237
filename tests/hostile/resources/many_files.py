# attacks: patience
# tries: eleven thousand empty files
# ends: error, timeout
# isolation: both
import pathlib
import select


def scores(table, queries, device):
    for number in range(11_000):
        pathlib.Path(f"file{number}").touch()
    select.select([], [], [], 20)
