// A gate that calls of real apps wait at, so that a test decides how long they take: the app asks the gate's URL, and goes on
// when it is answered.
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { hostAddress } from "#drivers/process/network.ts";

export type CallGate = {
  /** What `gatedApp` asks: where a shared network leads to, then where a network of its own does. */
  readonly urls: string;
  /** What lets an app through to it. */
  readonly settings: Readonly<Record<string, string>>;
  /** How many wait. */
  waiting(): number;
  /** Lets all through that wait. */
  open(): void;
};

/** The source of an app with a function `run(gate)`, which waits at the gate whose URLs it is given, if any. */
export const gatedApp = `import urllib.error, urllib.request

def run(gate: str = ""):
    for url in gate.split():
        try:
            urllib.request.urlopen(url).read()
            break
        except urllib.error.URLError:
            continue
    return "done"
`;

/** Listens on a free port until the test is over; whoever waits then goes on. */
export async function startCallGate(t: TestContext): Promise<CallGate> {
  const waiting = new Set<ServerResponse>();
  const server = createServer((_request, response) => {
    waiting.add(response);
    response.on("close", () => waiting.delete(response));
  });
  server.listen(0, "0.0.0.0");
  await once(server, "listening");
  const open = (): void => {
    for (const response of waiting) response.end();
  };
  t.after(async () => {
    server.close();
    open();
    server.closeAllConnections();
    await once(server, "close");
  });
  const { port } = server.address() as AddressInfo;
  const urls = ["127.0.0.1", hostAddress].map((host) => `http://${host}:${port}/`).join(" ");
  return { urls, settings: { SLIPWAY_APP_NETWORK_ALLOW: hostAddress }, waiting: () => waiting.size, open };
}
