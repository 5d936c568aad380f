// Calls an app over connections that are kept.
import { Agent, request } from "node:http";
import type { TestContext } from "node:test";
import type { BenchApp } from "./platform.ts";

const callMs = 60_000;

/**
 * Returns a function that calls `run` of the app with its token, and resolves to true for an answer
 * of the app.
 */
export function appCaller(t: TestContext, { platform, name }: BenchApp): () => Promise<boolean> {
  const agent = new Agent({ keepAlive: true, maxSockets: 2000 });
  t.after(() => agent.destroy());
  const { apiUrl, projectId, inferenceToken } = platform.bootstrap;
  const url = `${apiUrl}/v4/${projectId}/${name}/run`;
  const headers = {
    authorization: `Bearer ${inferenceToken}`,
    "content-type": "application/json",
  };
  const options = { method: "POST", agent, headers, timeout: callMs };
  return () =>
    new Promise((resolve) => {
      const call = request(url, options, (answer) => {
        answer.resume();
        answer.on("close", () => resolve(answer.statusCode === 200 && answer.complete));
      });
      call.on("timeout", () => call.destroy());
      call.on("error", () => resolve(false));
      call.end("{}");
    });
}
