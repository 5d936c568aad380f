// What is compared: our platform with one of its apps, or a job queue behind its small HTTP server.
// Both are asked over HTTP for one durable run (job) at a time, and for executing them.
import { Agent, request } from "undici";
import type { ClosedLoop } from "#bench/harness/closed-loop.ts";
import type { AppRequest } from "#bench/harness/wrk.ts";
import type { Drained, Starts } from "./queue-peer.ts";

/** One of those that are measured. */
export interface Contender {
  readonly name: string;
  /** The request for one run. `openAtMs`: when runs may end; before that they only accumulate. */
  runRequest(openAtMs: number): AppRequest;
  /** CPU time of its own process, in seconds. */
  cpuSeconds(): number;
  /** Adds without HTTP; null: not possible. */
  readonly bare: ((options: BareOptions) => Promise<ClosedLoop>) | null;
  /** The ways of executing. */
  readonly modes: readonly string[];
  /** Adds this many, which wait until `openAtMs`. */
  fill(count: number, openAtMs: number): Promise<void>;
  /** Executes everything that was added, and returns the rate. */
  drain(mode: string): Promise<Drained>;
  /** Starts executing new jobs immediately. */
  work(): Promise<void>;
  /** Executes what was added, and stops executing. */
  rest(): Promise<void>;
  /** The starts since the last call. */
  starts(): Promise<Starts>;
}

/** For how long, and how many callers add. */
export type BareOptions = { readonly seconds: number; readonly connections: number };

/** The deadline for executing everything that was added. */
export const drainMs = 300_000;

/** The timeout of long answers: one answer covers all jobs of a round. */
const agent = new Agent({ headersTimeout: drainMs * 2, bodyTimeout: drainMs * 2, connections: 64 });

/** The body of a request for a run: about 100 bytes. */
export function runBody(openAtMs: number): string {
  return JSON.stringify({ open_at: Math.round(openAtMs) / 1000, prompt: "x".repeat(60) });
}

/** Requests one run or job and returns its id. Rejects when it was not accepted. */
export async function addOne({ url, token, body, headers }: AppRequest): Promise<string> {
  const all = { ...headers, authorization: `Bearer ${token}` };
  const answer = await requestJson(url, { method: "POST", headers: all, body });
  const { run_id, job_id } = answer as { run_id?: string; job_id?: string };
  const id = run_id ?? job_id;
  if (id === undefined) throw new Error(`${url} answered without an id`);
  return id;
}

/** Reads an answer. Rejects when it is a refusal. */
export async function getJson<Answer>(url: string): Promise<Answer> {
  return (await requestJson(url, { method: "GET" })) as Answer;
}

async function requestJson(
  url: string,
  options: {
    readonly method: "GET" | "POST";
    readonly headers?: Record<string, string>;
    readonly body?: string | null;
  },
): Promise<unknown> {
  const answer = await request(url, { ...options, dispatcher: agent });
  const text = await answer.body.text();
  if (answer.statusCode >= 300) throw new Error(`${url} answered ${answer.statusCode}: ${text}`);
  return JSON.parse(text) as unknown;
}
