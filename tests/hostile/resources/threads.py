# attacks: patience
# tries: six hundred threads
# ends: error, timeout
# isolation: both
import select
import threading


def scores(table, queries, device):
    for _ in range(600):
        threading.Thread(target=select.select, args=([], [], [], 20), daemon=True).start()
    select.select([], [], [], 20)
