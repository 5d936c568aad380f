// The contenders of the benchmark: our platform with one of its apps, or a job queue behind its
// small HTTP server. Both are asked over HTTP for one durable run (job) at a time, and told when to
// execute them.
import { Client } from "pg";
import { Agent, request } from "undici";
import type { PlatformProcess } from "@slipway/server/test/support/platform-process.ts";
import { until } from "@slipway/server/test/support/until.ts";
import { ownCpuSecondsOf, type Child } from "#bench/child.ts";
import type { Asked } from "#bench/load.ts";
import type { Closed, ClosedOptions } from "./closed-loop.ts";
import { monotonicMs } from "./monotonic.ts";
import type { Drained, Starts } from "./queue-peer.ts";

/** One of those that are measured. */
export interface Contender {
  readonly name: string;
  /** The request for one run. `openAtMs`: when runs may end; before that they only accumulate. */
  asked(openAtMs: number): Asked;
  /** CPU time of its own process, in seconds. */
  cpuSeconds(): number;
  /** Adds without HTTP; null: not possible. */
  bare: ((options: ClosedOptions) => Promise<Closed>) | null;
  /** The ways of executing. */
  readonly modes: readonly string[];
  /** Adds this many, which wait until `openAtMs`. */
  fill(count: number, openAtMs: number): Promise<void>;
  /** Executes everything that was added, and returns the rate. */
  drain(mode: string): Promise<Drained>;
  /** Starts executing new jobs immediately. */
  work(): Promise<void>;
  rest(): Promise<void>;
  /** The starts since the last call. */
  starts(): Promise<Starts>;
}

const drainMs = 300_000;
const lookMs = 100;
/** The timeout of long answers: one answer covers all jobs of a round. */
const agent = new Agent({ headersTimeout: drainMs * 2, bodyTimeout: drainMs * 2, connections: 64 });

/** A job queue in a separate process. */
export class PeerContender implements Contender {
  readonly name: string;
  readonly modes: readonly string[];
  readonly bare: (options: ClosedOptions) => Promise<Closed>;
  readonly #child: Child;

  constructor(name: string, modes: readonly string[], child: Child) {
    this.name = name;
    this.modes = modes;
    this.#child = child;
    this.bare = ({ seconds, connections }) =>
      this.#get(`bare?seconds=${seconds}&connections=${connections}`);
  }

  asked(): Asked {
    return {
      url: `http://127.0.0.1:${this.#child.port}/add`,
      token: "none",
      body: bodyOf(0),
      fields: jsonFields,
    };
  }

  cpuSeconds(): number {
    return ownCpuSecondsOf(this.#child.pid);
  }

  async fill(count: number): Promise<void> {
    await this.#get(`fill?count=${count}`);
  }

  drain(mode: string): Promise<Drained> {
    return this.#get(`drain?mode=${encodeURIComponent(mode)}`);
  }

  async work(): Promise<void> {
    await this.#get("work");
  }

  async rest(): Promise<void> {
    await this.#get("rest");
  }

  starts(): Promise<Starts> {
    return this.#get("starts");
  }

  async #get<Answer>(path: string): Promise<Answer> {
    return (await ask("GET", {
      url: `http://127.0.0.1:${this.#child.port}/${path}`,
      fields: {},
    })) as Answer;
  }
}

/** One app of our platform. */
export type OurApp = {
  readonly name: string;
  readonly platform: PlatformProcess;
  readonly appName: string;
  readonly appId: string;
  /** The URL of the platform's database. */
  readonly database: Client;
};

/** Our platform with one of its apps, which is warm. */
export class OurContender implements Contender {
  readonly name: string;
  readonly modes = ["the app answers immediately"];
  readonly bare = null;
  readonly app: OurApp;

  constructor(app: OurApp) {
    this.name = app.name;
    this.app = app;
  }

  asked(openAtMs: number): Asked {
    const { apiUrl, projectId, inferenceToken } = this.app.platform.bootstrap;
    const url = `${apiUrl}/v4/${projectId}/${this.app.appName}/run?async=true`;
    return { url, token: inferenceToken, body: bodyOf(openAtMs), fields: jsonFields };
  }

  cpuSeconds(): number {
    return ownCpuSecondsOf(this.app.platform.pid());
  }

  /** With `webhook`: the answer of each run is posted there. */
  async fill(count: number, openAtMs: number, webhook: string | null = null): Promise<void> {
    const plain = this.asked(openAtMs);
    const forwarding = webhook === null ? "" : `&webhookEndpoint=${encodeURIComponent(webhook)}`;
    const asked = { ...plain, url: plain.url + forwarding };
    let left = count;
    const caller = async (): Promise<void> => {
      while (left-- > 0) await addOne(asked);
    };
    await Promise.all(Array.from({ length: fillers }, caller));
  }

  /** Runs that had started when the others were released do not count. */
  async drain(): Promise<Drained> {
    const { database, appId } = this.app;
    const openedMs = monotonicMs();
    const openedAt = Date.now();
    await this.settled();
    const { rows } = await database.query<{ jobs: number; seconds: number; failed: number }>(
      `select count(*)::int as jobs, count(*) filter (where state <> 'success')::int as failed,
              extract(epoch from max(ended_at) - min(started_at))::float8 as seconds
         from runs where app_id = $1 and started_at >= to_timestamp($2 / 1000.0) - interval '0.3 second'`,
      [appId, openedAt],
    );
    const { jobs, seconds, failed } = rows[0] ?? { jobs: 0, seconds: 0, failed: 0 };
    if (failed > 0) throw new Error(`${failed} of ${jobs} runs of ${this.name} failed`);
    if (jobs === 0) throw new Error(`no run of ${this.name} began after ${openedMs}`);
    return { jobs, seconds };
  }

  /** Waits until all of its runs have ended. */
  async settled(): Promise<void> {
    const { database, appId } = this.app;
    const open =
      "select exists (select from runs where app_id = $1 and ended_at is null) as is_open";
    const isOver = async (): Promise<boolean> => {
      // Polling every few milliseconds would add load.
      await new Promise((resolve) => setTimeout(resolve, lookMs));
      const { rows } = await database.query<{ is_open: boolean }>(open, [appId]);
      return rows[0]?.is_open === false;
    };
    await until(`all runs of ${this.name} have ended`, isOver, { deadlineMs: drainMs });
  }

  /** The address of its replica, for calling the app directly. */
  async replicaUrl(): Promise<string> {
    const address = "select address from replicas where app_id = $1 and state = 'ready'";
    const find = async (): Promise<string | undefined> =>
      (await this.app.database.query<{ address: string }>(address, [this.app.appId])).rows[0]
        ?.address;
    return `http://${await until(`a replica of ${this.app.appName} is ready`, find)}`;
  }

  async work(): Promise<void> {
    await this.starts();
  }

  async rest(): Promise<void> {
    await this.settled();
  }

  async starts(): Promise<Starts> {
    const method = this.app.appName === "bench-cortex" ? "POST" : "GET";
    const answer = await this.app.platform.call(this.app.appName, "starts", undefined, { method });
    const found = (await answer.json()) as { result?: Starts } & Starts;
    return found.result ?? found;
  }
}

const fillers = 64;
const jsonFields = { "Content-Type": "application/json" } as const;

/** About 100 bytes. */
function bodyOf(openAtMs: number): string {
  return JSON.stringify({ open_at: Math.round(openAtMs) / 1000, prompt: "x".repeat(60) });
}

/** Requests one run or job and returns its id. Rejects when it was not accepted. */
export async function addOne(asked: Asked): Promise<string> {
  const { run_id, job_id } = (await ask("POST", asked)) as { run_id?: string; job_id?: string };
  const id = run_id ?? job_id;
  if (id === undefined) throw new Error(`${asked.url} answered without an id`);
  return id;
}

type Question = Pick<Asked, "url" | "fields"> & {
  readonly token?: string;
  readonly body?: string | null;
};

async function ask(
  method: "GET" | "POST",
  { url, token, fields, body = null }: Question,
): Promise<unknown> {
  const headers = {
    ...fields,
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  };
  const answer = await request(url, { method, headers, body, dispatcher: agent });
  const text = await answer.body.text();
  if (answer.statusCode >= 300) throw new Error(`${url} answered ${answer.statusCode}: ${text}`);
  return JSON.parse(text) as unknown;
}

/** Connects to one of the databases. */
export async function connectTo(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  await client.connect();
  return client;
}
