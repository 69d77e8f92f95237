# attacks: label
# tries: to clear the screen, set its title and its clipboard, in print, error and result
# ends: failed
# isolation: both
def label(number):
    evil = "\x1b[2J\x1b]0;passed\x07\x1b]52;c;cGFzc2Vk\x07\x9b31m\x08\x08\r"
    print(evil)
    return {"words": evil, "half": evil, evil: evil}
