# attacks: patience
# tries: one file of three hundred mebibytes
# ends: error
# isolation: both
def scores(table, queries, device):
    with open("big", "wb") as file:
        for _ in range(300):
            file.write(bytes(1 << 20))
            file.flush()
    return None
