// An app that works in a folder of its storage, and goes on after that was removed: new files
// appear faster than others can go.

/** It is found out by several attempts to remove its folder, each of which may take ten seconds. */
export const attemptsMs = 90_000;

/**
 * Holds at most 600 MB, however long it takes to end it. The many files that are there at first
 * keep whoever removes them busy until it has written others, also where it gets little of the
 * processor.
 */
export const stubbornWriter = `
import os, threading, time
os.makedirs("/persistent-storage/r/sub", exist_ok=True)
os.chdir("/persistent-storage/r/sub")
for count in range(5000):
    open("first" + str(count), "wb").close()
def fill(name):
    count = 0
    while True:
        try:
            with open(name + str(count), "wb") as file:
                file.write(b"x" * 100_000)
        except OSError:
            pass
        count = (count + 1) % 1500
        time.sleep(0.001)
for name in "abcd":
    threading.Thread(target=fill, args=[name]).start()
print("writing", flush=True)`;
