// A git host that sends arbitrary answers: the smart HTTP protocol, version 2, by hand. One
// repository, one branch.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";

export type HostileAnswers = {
  /** The commit that `refs/heads/main` claims to be. */
  readonly commit?: string;
  readonly pack?: Buffer;
  /**
   * Sent instead of the list of references, as `gitLine`s; false once the client has disconnected.
   */
  readonly references?: (send: (lines: Buffer) => Promise<boolean>) => Promise<void>;
  /** Sent instead of the pack. */
  readonly messages?: (send: (text: string) => Promise<boolean>) => Promise<void>;
  /** Answers the first request itself. */
  readonly first?: (response: ServerResponse) => void;
};

const flush = "0000";
const delimiter = "0001";
const packBytesPerLine = 65_000;

/** Starts the host; stopped after the test. Returns the value for SLIPWAY_GIT_URL. */
export async function startHostileHost(t: TestContext, answers: HostileAnswers): Promise<string> {
  const server = createServer((request, response) => {
    response.on("error", () => undefined);
    void answer(request, response, answers).finally(() => response.end());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/{owner}/{repo}.git`;
}

/** A pkt-line of the protocol: its length in four hexadecimal digits, then its content. */
export function gitLine(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content as string);
  return Buffer.concat([Buffer.from((bytes.length + 4).toString(16).padStart(4, "0")), bytes]);
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  answers: HostileAnswers,
): Promise<void> {
  let next: (value: unknown) => void = () => undefined;
  response.on("drain", () => next(null)).on("close", () => next(null));
  const send = async (bytes: Buffer | string): Promise<boolean> => {
    if (response.destroyed) return false;
    if (!response.write(bytes)) await new Promise((resolve) => (next = resolve));
    else await setImmediate();
    return !response.destroyed;
  };
  if (request.method === "GET") {
    if (answers.first !== undefined) {
      answers.first(response);
      await once(response, "close");
      return;
    }
    response.setHeader("content-type", "application/x-git-upload-pack-advertisement");
    const offers = [
      "version 2\n",
      "agent=git/2.39\n",
      "ls-refs\n",
      "fetch=shallow\n",
      "object-format=sha1\n",
    ];
    const lines = [
      gitLine("# service=git-upload-pack\n"),
      Buffer.from(flush),
      ...offers.map((offer) => gitLine(offer)),
    ];
    await send(Buffer.concat([...lines, Buffer.from(flush)]));
    return;
  }
  const asked = Buffer.concat(await request.toArray());
  response.setHeader("content-type", "application/x-git-upload-pack-result");
  if (asked.includes("command=ls-refs")) {
    if (answers.references === undefined)
      await send(gitLine(`${answers.commit} refs/heads/main\n`));
    else await answers.references(send);
    await send(flush);
    return;
  }
  await send(
    Buffer.concat([
      gitLine("shallow-info\n"),
      gitLine(`shallow ${answers.commit}`),
      Buffer.from(delimiter),
    ]),
  );
  await send(gitLine("packfile\n"));
  if (answers.messages !== undefined) {
    await answers.messages((text) => send(gitLine(`\u0002${text}`)));
    return;
  }
  const pack = answers.pack ?? Buffer.alloc(0);
  for (let at = 0; at < pack.length; at += packBytesPerLine) {
    const part = Buffer.concat([Buffer.from([1]), pack.subarray(at, at + packBytesPerLine)]);
    if (!(await send(gitLine(part)))) return;
  }
  await send(flush);
}
