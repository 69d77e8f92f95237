# attacks: label
# tries: a file name that leads out of the scratch folder
# ends: failed, rejected
# isolation: both
# file name: ../../../tmp/hostile-climbed.py
def label(number):
    return None
