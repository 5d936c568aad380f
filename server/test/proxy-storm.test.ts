// Many calls at once through the proxy while replicas misbehave in every way and clients go away:
// each client gets its own answer or a clear refusal, never somebody else's, and in the end nothing
// is left over.
import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import { bothWays, helloPath, rawReplica, type RawClient } from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";

const callsPerClient = 12;
const clientsCount = 40;

/** Numbers below `most` that depend only on the seed. */
function seeded(seed: number): (max: number) => number {
  let state = seed;
  return (max) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * max);
  };
}

/** What a replica does with a call, by the first part of its path. */
const manners: Record<string, (socket: Socket, id: string) => void> = {
  whole: (socket, id) =>
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${id.length + 2}\r\n\r\n<${id}>`),
  chunks: (socket, id) => {
    socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n<\r\n");
    setImmediate(() => socket.write(`${id.length.toString(16)}\r\n${id}\r\n1\r\n>\r\n0\r\n\r\n`));
  },
  pieces: (socket, id) => {
    const answer = `HTTP/1.1 200 OK\r\nContent-Length: ${id.length + 2}\r\n\r\n<${id}>`;
    socket.write(answer.slice(0, 20));
    setImmediate(() => socket.write(answer.slice(20)));
  },
  closing: (socket, id) => socket.end(`HTTP/1.1 200 OK\r\n\r\n<${id}>`),
  extra: (socket, id) =>
    socket.write(
      `HTTP/1.1 200 OK\r\nContent-Length: ${id.length + 2}\r\n\r\n<${id}>HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n<forged>`,
    ),
  cut: (socket, id) => socket.end(`HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n<${id}`),
  silent: (socket) => socket.destroy(),
  nonsense: (socket) =>
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n<forged>"),
};
const names = Object.keys(manners);

test(
  "in a storm nobody gets another one's answer, and afterwards no place is taken",
  { timeout: 60_000 },
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, {
      settings: { replicaConcurrency: 4, loadBalancingAlgorithm: "round-robin" },
      limits: { lineLengthMax: 1000 },
    });
    const ports: number[] = [];
    for (let count = 0; count < 3; count++) ports.push(await rawReplica(t, takeCalls));
    bed.setReplicas(...ports);
    const random = seeded(20_261);
    const clients = Array.from({ length: clientsCount }, async (_, client) => {
      for (let call = 0; call < callsPerClient; call++) {
        const manner = names[random(names.length)] ?? "whole";
        const isLeaving = random(8) === 0;
        await oneCall(await bed.connect(), {
          manner,
          id: `${client}-${call}`,
          isLeaving,
          hasBody: random(2) === 0,
        });
        // Replicas come and go meanwhile; one is always there.
        if (random(4) === 0)
          bed.setReplicas(...ports.filter((_port, index) => index === 0 || random(2) === 0));
      }
    });
    await Promise.all(clients);
    const isIdle = (): boolean =>
      [...bed.proxy.apps.meters()].every(({ running, waiting }) => running + waiting === 0);
    await until("no place is taken", isIdle);
    assert.equal(bed.proxy.apps.demandOf(bed.appId).receivedTotal, bed.finished.length);
    const ids = new Set(bed.finished.map((call) => call.runId));
    assert.equal(ids.size, bed.finished.length, "each call ended once");
  }),
);

/** Answers each request on the connection in the manner that its path names. */
function takeCalls(socket: Socket): void {
  let seen = "";
  socket.on("data", (chunk: Buffer) => {
    seen += chunk.toString("latin1");
    const asked = /^(?:GET|POST) \/(\w+)\/([\d-]+) HTTP\/1\.1\r\n(?:.*\r\n)*?\r\n(?:body)?$/.exec(
      seen,
    );
    if (asked === null) return;
    const hasBody = seen.startsWith("POST");
    if (hasBody && !seen.endsWith("body")) return;
    seen = "";
    manners[asked[1] ?? ""]?.(socket, asked[2] ?? "");
  });
}

type OneCall = {
  readonly manner: string;
  readonly id: string;
  readonly isLeaving: boolean;
  readonly hasBody: boolean;
};

async function oneCall(
  client: RawClient,
  { manner, id, isLeaving, hasBody }: OneCall,
): Promise<void> {
  if (hasBody) client.ask(`POST ${helloPath}/${manner}/${id}`, ["Content-Length: 4"], "body");
  else client.ask(`GET ${helloPath}/${manner}/${id}`);
  if (isLeaving) {
    client.socket.destroy();
    return;
  }
  await until(`call ${id} (${manner}) is answered`, () => client.isEnded || isWhole(client.text));
  const { text } = client;
  client.socket.destroy();
  assert.doesNotMatch(text, /forged/);
  for (const [, other] of text.matchAll(/<([\d-]+)/g))
    assert.equal(other, id, `an answer of ${manner}`);
  const status = Number(text.slice(9, 12));
  if (manner === "nonsense" || manner === "silent") assert.equal(status, 502);
  else assert.equal(status, 200, text);
  if (manner === "cut") assert.ok(!text.includes(`<${id}>`));
  else if (status === 200)
    assert.ok(text.replaceAll(/\r\n[0-9a-f]+\r\n/g, "").includes(`<${id}>`) || text.includes(id));
}

/** A whole answer by its length or its last chunk. */
function isWhole(text: string): boolean {
  const head = text.indexOf("\r\n\r\n");
  if (head === -1) return false;
  const length = /\r\nContent-Length: (\d+)\r\n/i.exec(text.slice(0, head + 2))?.[1];
  if (length !== undefined) return text.length >= head + 4 + Number(length);
  return text.endsWith("0\r\n\r\n");
}
