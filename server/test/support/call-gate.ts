// A gate at which calls of real apps wait, so that a test decides how long they take: the app
// requests the gate's URL and continues when it is answered.
import { hostAddress } from "#drivers/app-firewall.ts";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

export type CallGate = {
  /**
   * The URLs that `gatedApp` tries: first for a shared network, then for a network namespace of its
   * own.
   */
  readonly urls: string;
  /** The setting that allows an app to reach the gate. */
  readonly settings: Readonly<Record<string, string>>;
  /** How many calls are waiting. */
  waiting(): number;
  /** Releases all waiting calls. */
  open(): void;
};

/**
 * The source of an app with a function `run(gate)`, which waits at the gate if it is given URLs.
 */
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

/** Listens on a free port until the test ends; calls that still wait are then released. */
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
  return {
    urls,
    settings: { SLIPWAY_APP_NETWORK_ALLOW: hostAddress },
    waiting: () => waiting.size,
    open,
  };
}
