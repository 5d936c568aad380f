// A host beside this machine, in a network namespace: on a private network, which apps must not
// reach unless that is allowed, or at an address for documentation, in place of the internet.
// Requires root and `ip`.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";

const port = 8123;

export type LanHost = { readonly host: string; readonly port: number; close(): Promise<void> };

/** The address of this machine at each of its cables. */
const gateway = "169.254.2.1";

/**
 * Answers each connection with "lan", and echoes each datagram, those to the port of name servers
 * too. `net`: the first three numbers of its address; the last is one that no other test has.
 */
export async function openLanHost(net = `192.168.${(process.pid >> 8) & 0xff}`): Promise<LanHost> {
  for (let tries = 0; tries < 254; tries++) {
    const host = `${net}.${((process.pid + tries) % 254) + 1}`;
    const child = startHost(host);
    const isReady = await Promise.race([
      once(child.stdout, "data").then(() => true),
      once(child, "exit").then(() => false),
    ]);
    if (!isReady) continue;
    return {
      host,
      port,
      async close() {
        child.kill("SIGKILL");
        await once(child, "exit");
        try {
          execFileSync("ip", ["link", "delete", linkOf(host)], { stdio: "ignore" });
        } catch {
          // It was removed together with the namespace.
        }
      },
    };
  }
  throw new Error(`no address of ${net} is free`);
}

function linkOf(host: string): string {
  const end = host.split(".").map((byte) => Number(byte).toString(16).padStart(2, "0"));
  return `lan${end.join("")}`;
}

/** Ends where another test has a route to the address. */
function startHost(host: string) {
  const link = linkOf(host);
  const server = `import socket, threading
def echo(port):
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.bind(("0.0.0.0", port))
    while True:
        data, sender = u.recvfrom(100)
        u.sendto(data, sender)
for port in (53, ${port}): threading.Thread(target=echo, args=(port,), daemon=True).start()
s = socket.create_server(("0.0.0.0", ${port}))
print("ready", flush=True)
while True:
    c, _ = s.accept(); c.sendall(b"lan"); c.close()`;
  const setUp = `ip link set lo up && ip link add eth0 type veth peer name ${link} netns /proc/${process.pid}/ns/net &&
ip addr add ${host}/32 dev eth0 && ip link set eth0 up && ip route add ${gateway} dev eth0 && ip route add default via ${gateway} &&
nsenter --net=/proc/${process.pid}/ns/net sh -c 'ip addr add ${gateway}/32 dev ${link} && ip link set ${link} up && ip route add ${host}/32 dev ${link} src ${gateway}' &&
exec python3 -c "$1"`;
  return spawn("unshare", ["--net", "--kill-child", "--fork", "sh", "-c", setUp, "sh", server], {
    stdio: ["ignore", "pipe", "inherit"],
  });
}
