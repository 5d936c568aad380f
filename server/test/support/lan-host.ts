// A host on a private network beside this machine, in a network namespace: apps must not reach it unless that is allowed.
// Requires root and `ip`.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";

const port = 8123;

/** Answers each connection with "lan", and echoes each datagram. */
export async function openLanHost(): Promise<{ readonly host: string; readonly port: number; close(): Promise<void> }> {
  const link = `lan${process.pid}`;
  const [third, fourth] = [process.pid >> 8, process.pid & 0xfc];
  const [gateway, host] = [`192.168.${third & 0xff}.${fourth + 1}`, `192.168.${third & 0xff}.${fourth + 2}`];
  const server = `import socket, threading
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(("0.0.0.0", ${port}))
def echo():
    while True:
        data, sender = u.recvfrom(100)
        u.sendto(data, sender)
threading.Thread(target=echo, daemon=True).start()
s = socket.create_server(("0.0.0.0", ${port}))
print("ready", flush=True)
while True:
    c, _ = s.accept(); c.sendall(b"lan"); c.close()`;
  const setUp = `ip link set lo up && ip link add eth0 type veth peer name ${link} netns /proc/${process.pid}/ns/net &&
ip addr add ${host}/30 dev eth0 && ip link set eth0 up && ip route add default via ${gateway} &&
nsenter --net=/proc/${process.pid}/ns/net sh -c 'ip addr add ${gateway}/30 dev ${link} && ip link set ${link} up' &&
exec python3 -c "$1"`;
  const child = spawn("unshare", ["--net", "--kill-child", "--fork", "sh", "-c", setUp, "sh", server], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  return {
    ...{ host, port },
    async close() {
      child.kill("SIGKILL");
      await once(child, "exit");
      try {
        execFileSync("ip", ["link", "delete", link], { stdio: "ignore" });
      } catch {
        // It was removed together with the namespace.
      }
    },
  };
}
