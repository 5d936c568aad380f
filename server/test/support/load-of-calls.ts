// A steady load of calls, streams and WebSockets that counts what fails. A call may fail only if it
// was in flight when the platform was killed, or found no platform.
import { request, Agent } from "node:http";
import { systemClock } from "#lib/clock.ts";
import { until } from "./until.ts";

type Ended = { readonly kind: "call" | "stream" | "socket"; readonly text: string };

export type LoadReport = {
  readonly calls: number;
  readonly streams: number;
  readonly sockets: number;
  /** The ids of the async runs that were accepted. */
  readonly runs: readonly string[];
  /** Ended with the platform that was killed under them, or found none. */
  readonly cut: number;
  /** Calls that were answered in each second, on average. */
  readonly reached: number;
  /** How many versions answered. */
  readonly versions: number;
  readonly failures: readonly string[];
};

/** One of so many calls is a stream, and one of so many a WebSocket. */
const streamEvery = 50;
const socketEvery = 100;
/** One of so many calls is an async run, if any is. */
const runEvery = 25;
const tickMs = 20;
/** A machine that cannot keep up gets no more calls than this at once. */
const inFlightMax = 2_000;
const messages = 5;

/** Calls from its creation on until `end`. */
export class LoadOfCalls {
  readonly #urlOf: () => string;
  readonly #callsPerMs: number;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 500 });
  readonly #failures: string[] = [];
  readonly #versions = new Set<string>();
  readonly #hasRuns: boolean;
  readonly #runs: string[] = [];
  readonly #counts = { call: 0, stream: 0, socket: 0, cut: 0 };
  readonly #startMs = systemClock.monotonicMs();
  #tickedMs = this.#startMs;
  /** Grows when the platform goes down, and when it is up again: odd while it is down. */
  #changes = 0;
  #begun = 0;
  #owed = 0;
  #inFlight = 0;
  #isOver = false;
  #cancel: () => void = () => undefined;

  constructor(options: {
    readonly urlOf: () => string;
    readonly callsPerSecond: number;
    readonly hasRuns?: boolean;
  }) {
    this.#urlOf = options.urlOf;
    this.#hasRuns = options.hasRuns ?? false;
    this.#callsPerMs = options.callsPerSecond / 1000;
    this.#tick();
  }

  /** How many calls have failed so far. */
  get failed(): number {
    return this.#failures.length;
  }

  /** How many calls have ended well so far. */
  get answered(): number {
    return this.#counts.call;
  }

  /** The platform is about to be killed. */
  down(): void {
    this.#changes++;
  }

  /** The platform answers again. */
  up(): void {
    this.#changes++;
  }

  /** Stops calling, and resolves with the report when all calls have ended. */
  async end(): Promise<LoadReport> {
    this.#isOver = true;
    this.#cancel();
    const seconds = (systemClock.monotonicMs() - this.#startMs) / 1000;
    await until("all calls have ended", () => this.#inFlight === 0, { deadlineMs: 60_000 });
    this.#agent.destroy();
    const { call, stream, socket, cut } = this.#counts;
    const reached = Math.round((call + stream + socket) / seconds);
    const versions = this.#versions.size;
    return {
      calls: call,
      streams: stream,
      sockets: socket,
      runs: this.#runs,
      cut,
      reached,
      versions,
      failures: this.#failures,
    };
  }

  #tick(): void {
    if (this.#isOver) return;
    const nowMs = systemClock.monotonicMs();
    this.#owed += (nowMs - this.#tickedMs) * this.#callsPerMs;
    this.#tickedMs = nowMs;
    // While there is no platform, callers wait for it.
    if (this.#changes % 2 === 1) this.#owed = 0;
    for (; this.#owed >= 1 && this.#inFlight < inFlightMax; this.#owed--)
      void this.#one(++this.#begun);
    this.#owed = Math.min(this.#owed, 1);
    this.#cancel = systemClock.after(tickMs, () => this.#tick());
  }

  async #one(number: number): Promise<void> {
    const changes = this.#changes;
    const url = this.#urlOf();
    this.#inFlight++;
    try {
      if (this.#hasRuns && number % runEvery === 2) {
        this.#runs.push(await this.#accepted(url));
        return;
      }
      const isStream = number % streamEvery === 0;
      const ended =
        number % socketEvery === 1 ? await socket(url) : await this.#request(url, isStream);
      this.#counts[ended.kind]++;
      this.#versions.add(ended.text);
    } catch (error) {
      const isKilled =
        this.#changes !== changes && error instanceof Error && error.name !== "WrongAnswer";
      if (isKilled) this.#counts.cut++;
      else this.#failures.push(`call ${number}: ${String(error)}`);
    } finally {
      this.#inFlight--;
    }
  }

  /** Begins an async run. */
  #accepted(url: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const options = { method: "POST", agent: this.#agent };
      const sent = request(`${url}/answer?async=true`, options, (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (part: string) => (text += part));
        response.on("end", () => {
          if (response.statusCode === 202) resolve((JSON.parse(text) as { run_id: string }).run_id);
          else reject(new WrongAnswer(`async: ${response.statusCode} ${text}`));
        });
        response.on("close", () => reject(new Error("the answer broke off")));
      });
      sent.on("error", reject);
      sent.end();
    });
  }

  #request(url: string, isStream: boolean): Promise<Ended> {
    return new Promise((resolve, reject) => {
      const path = isStream ? "/stream" : "/answer";
      const sent = request(`${url}${path}`, { agent: this.#agent }, (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (part: string) => (text += part));
        response.on("error", reject);
        response.on("end", () => {
          const parts = text.trim().split(" ");
          const isWhole = parts.length === (isStream ? 10 : 1) && new Set(parts).size === 1;
          if (response.statusCode !== 200 || !isWhole)
            reject(new WrongAnswer(`${response.statusCode} ${text}`));
          else resolve({ kind: isStream ? "stream" : "call", text: parts[0] ?? "" });
        });
        response.on("close", () => reject(new Error("the answer broke off")));
      });
      sent.on("error", reject);
      sent.end();
    });
  }
}

/** An answer that no kill explains. */
class WrongAnswer extends Error {
  override readonly name = "WrongAnswer";
}

/** Exchanges a few messages, all with one release. */
function socket(url: string): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const client = new WebSocket(`${url.replace("http", "ws")}/socket`);
    const answers: string[] = [];
    client.onopen = () => client.send("hello");
    client.onmessage = ({ data }) => {
      answers.push(String(data));
      if (answers.length === messages) client.close();
      else
        systemClock.after(100, () => client.readyState === WebSocket.OPEN && client.send("hello"));
    };
    client.onerror = () => reject(new Error("the WebSocket broke"));
    client.onclose = () => {
      if (answers.length < messages)
        reject(new Error(`the WebSocket ended after ${answers.length} messages`));
      else if (new Set(answers).size > 1)
        reject(new WrongAnswer(`a WebSocket went to ${answers.join(" and ")}`));
      else resolve({ kind: "socket", text: answers[0] ?? "" });
    };
  });
}
