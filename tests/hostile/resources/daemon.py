# attacks: patience
# tries: a daemon of its own, in its own session, that listens
# ends: failed
# isolation: both
import os
import select
import socket


def scores(table, queries, device):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            try:
                listener = socket.create_server(("127.0.0.1", 47311))
                select.select([], [], [], 30)
            finally:
                os._exit(0)
        os._exit(0)
    select.select([], [], [], 0.3)
    return None
