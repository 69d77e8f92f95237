# attacks: patience
# tries: to start a program that holds its streams, and to fail
# ends: failed, error
# isolation: both
import subprocess


def scores(table, queries, device):
    subprocess.Popen(["/bin/sleep", "30"], start_new_session=True)
    return None
