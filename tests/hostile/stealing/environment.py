# attacks: label
# tries: to print its own environment and that of its parents
# ends: failed
# isolation: bubblewrap
import os
import pathlib


def label(number):
    print(dict(os.environ).get("HOSTILE_SECRET"))
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        print(text.replace(b"\0", b"\n").decode(errors="replace")[:20_000])
    return None
