// Calls of an app that are sent at their times, whether earlier ones are answered or not, so that a
// latency contains all waiting.
import { Agent, request } from "node:http";
import type { PlatformProcess } from "@slipway/server/test/support/platform-process.ts";

/** A call, in milliseconds since the first was due. `isGood`: the app has answered. */
export type TimedCall = {
  readonly dueMs: number;
  readonly endMs: number;
  readonly isGood: boolean;
};

const tickMs = 5;
const callMs = 60_000;

/** Calls `run` of an app with its token, over connections that are kept. */
export class AppCaller {
  readonly #platform: PlatformProcess;
  readonly #name: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 2000 });

  constructor(platform: PlatformProcess, name: string) {
    this.#platform = platform;
    this.#name = name;
  }

  close(): void {
    this.#agent.destroy();
  }

  /** Sends `rate` calls per second until `isOver`; resolves when all have an answer. */
  async send(rate: number, isOver: (sent: number) => boolean): Promise<readonly TimedCall[]> {
    const calls: Promise<TimedCall>[] = [];
    const began = performance.now();
    await new Promise<void>((resolve) => {
      const timer = setInterval(() => {
        const due = Math.floor(((performance.now() - began) * rate) / 1000);
        while (calls.length < due && !isOver(calls.length)) {
          const dueMs = (calls.length * 1000) / rate;
          calls.push(
            this.call().then((isGood) => ({ dueMs, endMs: performance.now() - began, isGood })),
          );
        }
        if (!isOver(calls.length)) return;
        clearInterval(timer);
        resolve();
      }, tickMs);
    });
    return await Promise.all(calls);
  }

  /** True for an answer of the app. */
  call(): Promise<boolean> {
    const { apiUrl, projectId, inferenceToken } = this.#platform.bootstrap;
    return new Promise((resolve) => {
      const headers = {
        authorization: `Bearer ${inferenceToken}`,
        "content-type": "application/json",
      };
      const url = `${apiUrl}/v4/${projectId}/${this.#name}/run`;
      const sent = request(
        url,
        { method: "POST", agent: this.#agent, headers, timeout: callMs },
        (answer) => {
          answer.resume();
          answer.on("close", () => resolve(answer.statusCode === 200 && answer.complete));
        },
      );
      sent.on("timeout", () => sent.destroy());
      sent.on("error", () => resolve(false));
      sent.end("{}");
    });
  }
}
