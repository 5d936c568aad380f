// An app that works in a folder of its storage, and goes on after that was removed: new files appear faster than others can go.
// It holds at most 600 MB, however long it takes to end it.
export const stubbornWriter = `
import os, threading, time
os.makedirs("/persistent-storage/r/sub", exist_ok=True)
os.chdir("/persistent-storage/r/sub")
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
