# attacks: patience
# tries: to ignore every signal that can be, and to sleep on
# ends: timeout
# isolation: both
import select
import signal

for number in signal.valid_signals():
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass


def scores(table, queries, device):
    while True:
        try:
            select.select([], [], [], 60)
        except BaseException:
            pass
