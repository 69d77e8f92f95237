# attacks: label
# tries: to end the process with status 0 before anything is checked
# ends: error
# isolation: both
import os
import sys

sys.stdout.write("ok\n")
sys.stdout.flush()
os._exit(0)
