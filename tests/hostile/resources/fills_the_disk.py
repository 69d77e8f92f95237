# attacks: patience
# tries: six files of a hundred mebibytes
# ends: error, timeout
# isolation: both
import select


def scores(table, queries, device):
    for number in range(6):
        with open(f"big{number}", "wb") as file:
            for _ in range(100):
                file.write(bytes(1 << 20))
    select.select([], [], [], 20)
