// A name server on this machine, whose records a test sets and removes.
import { createSocket } from "node:dgram";
import type { TestContext } from "node:test";
import { decode, encode, type Answer } from "dns-packet";
import { cleanLast } from "./clean-last.ts";

/** The records of one name, by their type. */
export type NameRecords = {
  readonly A?: string;
  readonly CNAME?: string;
  readonly TXT?: string | readonly string[];
};

/** A running name server. */
export type DnsServer = {
  /** The address and port at which it answers. */
  readonly address: string;
  /** The records by name; null: it stays silent. It answers that other names do not exist. */
  readonly names: Map<string, NameRecords | null>;
  /** The names that were asked for. */
  readonly asked: Set<string>;
};

/** Starts it; it ends after the test. */
export async function startDnsServer(
  t: TestContext,
  given: Readonly<Record<string, NameRecords | null>> = {},
): Promise<DnsServer> {
  const names = new Map(Object.entries(given));
  const asked = new Set<string>();
  const socket = createSocket("udp4");
  socket.on("message", (message, from) => {
    const { id, questions = [] } = decode(message);
    const [question] = questions;
    if (question === undefined) return;
    const name = question.name.toLowerCase();
    asked.add(name);
    const records = names.get(name);
    if (records === null) return;
    const answers = answersOf(question.name, question.type, records ?? {});
    // Recursion was asked for and is available; the last digit says that there is no such name.
    const flags = records === undefined ? 0x0183 : 0x0180;
    socket.send(
      encode({ type: "response", id, flags, questions, answers }),
      from.port,
      from.address,
    );
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  cleanLast(t, () => new Promise<void>((resolve) => socket.close(() => resolve())));
  return { address: `127.0.0.1:${socket.address().port}`, names, asked };
}

function answersOf(name: string, type: string, records: NameRecords): Answer[] {
  const { A, CNAME, TXT = [] } = records;
  const ttl = 0;
  if (type === "A" && A !== undefined) return [{ type, name, ttl, data: A }];
  if (type === "CNAME" && CNAME !== undefined) return [{ type, name, ttl, data: CNAME }];
  const texts = typeof TXT === "string" ? [TXT] : TXT;
  return type === "TXT" ? texts.map((data) => ({ type, name, ttl, data })) : [];
}
