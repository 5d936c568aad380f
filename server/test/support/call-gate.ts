// A gate that calls of real apps wait at, so that a test decides how long they take: the app asks the gate's URL, and goes on
// when it is answered.
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

export type CallGate = {
  /** What an app asks. */
  readonly url: string;
  /** How many wait. */
  waiting(): number;
  /** Lets all through that wait. */
  open(): void;
};

/** The source of an app with a function `run(gate)`, which waits at the gate that it is given, if any. */
export const gatedApp = `import urllib.request

def run(gate: str = ""):
    if gate:
        urllib.request.urlopen(gate).read()
    return "done"
`;

/** Listens on a free port of 127.0.0.1 until the test is over; whoever waits then goes on. */
export async function startCallGate(t: TestContext): Promise<CallGate> {
  const waiting = new Set<ServerResponse>();
  const server = createServer((_request, response) => {
    waiting.add(response);
    response.on("close", () => waiting.delete(response));
  });
  server.listen(0, "127.0.0.1");
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
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, waiting: () => waiting.size, open };
}
