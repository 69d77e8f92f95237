# attacks: patience
# tries: never to be loaded
# ends: timeout
# isolation: both
while True:
    pass
