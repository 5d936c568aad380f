// A Unix socket in front of another one, which sees and can break what passes.
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { cleanLast, type WithAfter } from "./clean-last.ts";
import { temporaryFolder } from "./folder.ts";

/**
 * Passes on what clients of the returned socket send to the socket `target`, and its answers.
 * `onSent` sees it before.
 */
export async function startRelay(
  t: WithAfter,
  target: string,
  onSent: (sent: Buffer, client: Socket) => void,
): Promise<string> {
  const socketPath = join(temporaryFolder(t, "relay"), "s");
  const server = createServer((client) => {
    const onward = connect(target);
    for (const one of [client, onward]) one.on("error", () => undefined);
    client.on("data", (sent) => onSent(sent, client));
    client.pipe(onward).pipe(client);
    client.on("close", () => onward.destroy());
  });
  cleanLast(t, () => void server.close());
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  return socketPath;
}
