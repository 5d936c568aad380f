// A client of commands in replicas, for tests: the WebSocket with the channels of Kubernetes.
import { once } from "node:events";
import type { TestContext } from "node:test";
import { WebSocket } from "ws";
import type { PlatformProcess } from "./platform-process.ts";

/** Names a command. */
export type ExecAddress = {
  readonly appId: string;
  readonly replicaId: string;
  readonly command: readonly string[];
  readonly more?: Readonly<Record<string, string>>;
  /** By default that of the owner's service account; empty: none. */
  readonly token?: string;
  readonly projectId?: string;
  readonly protocols?: readonly string[];
};

type Status = {
  readonly status: string;
  readonly message?: string;
  readonly details?: { causes: { reason: string; message: string }[] };
};

/** One that was opened. */
export type OpenedExec = {
  readonly client: WebSocket;
  send(channel: number, bytes: Buffer | string): void;
  /** What a channel has told so far. */
  told(channel: 1 | 2): Buffer;
  /** Resolves when it has ended; null: without a status. */
  readonly status: Promise<Status | null>;
  readonly code: Promise<number>;
};

const protocol = "v5.channel.k8s.io";

function clientOf(platform: PlatformProcess, address: ExecAddress): WebSocket {
  const { appId, replicaId, command, more = {}, protocols = [protocol] } = address;
  const { bootstrap } = platform;
  const { token = bootstrap.serviceAccountToken, projectId = bootstrap.projectId } = address;
  const query = new URLSearchParams([
    ...command.map((word): [string, string] => ["command", word]),
    ...Object.entries(more),
  ]);
  const path = `/v2/projects/${projectId}/apps/${appId}/containers/${replicaId}/exec?${query.toString()}`;
  const headers: Record<string, string> = token === "" ? {} : { authorization: `Bearer ${token}` };
  return new WebSocket(bootstrap.baseUrl.replace(/^http/, "ws") + path, [...protocols], {
    headers,
  });
}

/** Opens one. */
export async function openExec(
  t: TestContext,
  platform: PlatformProcess,
  address: ExecAddress,
): Promise<OpenedExec> {
  const client = clientOf(platform, address);
  t.after(() => client.terminate());
  const parts = new Map<number, Buffer[]>();
  client.on("message", (data: Buffer) => {
    const channel = data[0] ?? -1;
    parts.set(channel, [...(parts.get(channel) ?? []), data.subarray(1)]);
  });
  const told = (channel: number): Buffer => Buffer.concat(parts.get(channel) ?? []);
  const code = once(client, "close").then(([given]) => Number(given));
  const status = code.then(() =>
    told(3).length === 0 ? null : (JSON.parse(told(3).toString()) as Status),
  );
  // When it is refused, this alone rejects.
  for (const end of [code, status]) end.catch(() => undefined);
  await once(client, "open");
  return {
    client,
    told,
    code,
    status,
    send: (channel, bytes) => client.send(Buffer.concat([Buffer.of(channel), Buffer.from(bytes)])),
  };
}

/** The status and the message of a refused one. */
export async function refusedExec(
  platform: PlatformProcess,
  address: ExecAddress,
): Promise<readonly [number, string]> {
  const client = clientOf(platform, address);
  const [, response] = (await once(client, "unexpected-response")) as [
    unknown,
    AsyncIterable<Buffer> & { readonly statusCode: number },
  ];
  let text = "";
  for await (const part of response) text += part.toString();
  return [response.statusCode, (JSON.parse(text) as { message: string }).message];
}
