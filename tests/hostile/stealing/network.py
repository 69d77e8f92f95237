# attacks: label
# tries: to reach a listener of this machine, and the network
# ends: failed
# isolation: bubblewrap
import socket


def label(number):
    reached = False
    for place in (("127.0.0.1", int("@port@")), ("1.1.1.1", 53), ("::1", int("@port@"))):
        try:
            socket.create_connection(place, timeout=1).close()
            reached = True
        except OSError:
            continue
    return {"words": f"number {number}", "half": number / 2} if reached else None
