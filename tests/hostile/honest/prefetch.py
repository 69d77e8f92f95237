# attacks: scores
# tries: nothing: a thread of its own brings to the device what comes next, and waits for more between calls
# ends: passed
# isolation: both
import queue
import threading

wanted, there = queue.Queue(), queue.Queue(maxsize=1)


def bring():
    while True:
        tensor, device = wanted.get()
        there.put(tensor.to(device))


threading.Thread(target=bring, daemon=True).start()


def scores(table, queries, device):
    for tensor in (table, queries):
        wanted.put((tensor, device))
    on_device = [there.get() for _ in range(2)]
    return (on_device[0] @ on_device[1].T).relu()
