// `slipway call`: calls an app as its users do, with a token that may, and prints the result.
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { pipeline, type Readable, type Transform } from "node:stream";
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from "node:zlib";
import { ApiRefused } from "./api-client.ts";
import { withCommands } from "./command-advice.ts";
import { bodyOf, bodyOptions } from "./call-body.ts";
import { quoted } from "./call-example.ts";
import { callToken } from "./call-token.ts";
import type { Given } from "./command.ts";
import { plain, plainJson } from "./plain-text.ts";
import { exitCodes, misuse, Refused } from "./refused.ts";
import { resourceCommand, type At } from "./resource.ts";
import { printResult, waitForRun } from "./run-result.ts";
import { printAnswer, whole } from "./shown-answer.ts";
import { spanText } from "./since.ts";

const methodForm = /^[A-Z]{1,20}$/;

/** The command that calls an app. */
export const callApp = resourceCommand({
  name: "call",
  about: `Call an app and print its result; run id and time go to standard error.

A value that is valid JSON is sent as JSON (count=3, ok=true, list=[1,2]), any other as text; name:=value must be JSON,
and '"3"' in quotes is the text 3. The token is SLIPWAY_CALL_TOKEN, else SLIPWAY_TOKEN, else a readable key of the project.`,
  examples: [
    "call hello/run name=Ada",
    "call /run name=Ada",
    'call hello/run --data \'{"name": "Ada"}\'',
    "call hello/run --file body.json",
    "call stream/run count=3 --stream",
    "call report/run pages=20 --async --wait",
    "call report/run pages=20 --webhook https://example.org/done",
    "call web/status --method GET",
  ],
  of: "project",
  appOf: (given) => splitTarget(given.operand("target")).app,
  operands: [
    {
      name: "target",
      about:
        "The app, and the function or path in it: hello/run. Without an app, such as /run: the one of this folder.",
    },
    { name: "name=value", about: "Fields of the body.", isOptional: true, isMany: true },
  ],
  options: {
    ...bodyOptions,
    stream: { value: null, about: "Ask for events, and print each as it comes." },
    async: { value: null, about: "Run it in the background, and print the run id." },
    webhook: {
      value: "<url>",
      about: "Run it in the background, and post the result to this URL.",
    },
    wait: { value: null, about: "With --async: wait for the run, and print its result." },
    timeout: { value: "<time>", about: "With --wait: how long, such as 30s or 10m. Default: 1h." },
    method: { value: "<method>", about: "Default: POST.", short: "X" },
  },
  async run(at) {
    const { given, machine } = at;
    if (given.has("wait") && !isAsync(given))
      throw misuse("--wait is only for calls with --async.");
    if (given.has("timeout") && !given.has("wait"))
      throw misuse("--timeout is only for calls with --async --wait.");
    if (given.has("stream") && isAsync(given))
      throw misuse("Use either --stream or --async, not both.");
    const startMs = performance.now();
    const { response, runId } = await send(at);
    const status = response.statusCode ?? 0;
    if (status >= 400) throw await refusalOf(response, status, given.operands("name=value"));
    if (isAsync(given)) return await inBackground(at, response);
    const contentType = response.headers["content-type"] ?? "";
    await printAnswer(machine, { contentType, body: received(response) }, given.has("json"));
    machine.tell(`Run ${plain(runId)} took ${spanText(performance.now() - startMs)}.`);
    return 0;
  },
});

/** A result is posted of runs in the background. */
function isAsync(given: Given): boolean {
  return given.has("async") || given.has("webhook");
}

function splitTarget(target: string): { app: string; rest: string } {
  const [, app = target, rest = ""] = /^([^/?]*)([/?].*)?$/s.exec(target) ?? [];
  return { app, rest };
}

async function send(at: At): Promise<{ response: IncomingMessage; runId: string }> {
  const { given, client, path } = at;
  const method = given.text("method")?.toUpperCase() ?? "POST";
  if (!methodForm.test(method))
    throw misuse(`--method is "${method}", but must be a word such as GET or POST.`);
  const pairs = given.operands("name=value");
  const { bytes, type } = await bodyOf(given, pairs);
  const hasBody = method !== "GET" && method !== "HEAD";
  const token = await callToken(at);
  const { rest } = splitTarget(given.operand("target"));
  const app = path.app_id;
  // An id is the project's id and the name.
  const name = app.startsWith(`${path.project_id}-`) ? app.slice(path.project_id.length + 1) : app;
  const url = new URL(
    `${client.url}/v4/${encodeURIComponent(path.project_id)}/${encodeURIComponent(name)}${rest}`,
  );
  if (isAsync(given)) url.searchParams.set("async", "true");
  const webhook = given.text("webhook");
  if (webhook !== undefined) url.searchParams.set("webhookEndpoint", webhook);
  const headers = {
    ...(hasBody ? { "content-type": type, "content-length": bytes.length } : {}),
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    accept: given.has("stream") ? "text/event-stream" : "*/*",
    "user-agent": `slipway/${at.machine.version} (${at.machine.system})`,
  };
  const response = await sent(url, method, headers, hasBody ? bytes : null);
  return { response, runId: String(response.headers["x-request-id"] ?? "") };
}

/**
 * Node's fetch gives up on an answer after five minutes; how long a call may take is the app's to
 * say.
 */
function sent(
  url: URL,
  method: string,
  headers: Readonly<Record<string, string | number>>,
  body: Buffer | null,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = url.protocol === "https:" ? httpsRequest : httpRequest;
    request(url, { method, headers })
      .once("response", resolve)
      .once("error", (error) => {
        const reason = "code" in error ? String(error.code) : error.message;
        reject(new Refused(`${url.origin} did not answer the call (${reason}).`, { cause: error }));
      })
      .end(body ?? undefined);
  });
}

/** The command asks for no compression, but some apps compress all the same. */
const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

function readable(response: IncomingMessage): Readable {
  const decoder = decoders[response.headers["content-encoding"]?.toLowerCase() ?? ""]?.();
  // Whoever reads the decoder learns of errors.
  return decoder === undefined ? response : pipeline(response, decoder, () => undefined);
}

/** The parts of the answer; a connection that breaks is a refusal. */
async function* received(response: IncomingMessage): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for await (const part of readable(response)) yield part as Uint8Array;
  } catch (error) {
    const reason = error instanceof Error && "code" in error ? String(error.code) : String(error);
    throw new Refused(`The answer broke off (${reason}).`, { cause: error });
  }
}

async function inBackground(at: At, response: IncomingMessage): Promise<number> {
  const { given, machine, path } = at;
  const runId = fieldOf((await whole(received(response))).toString(), "run_id");
  if (runId === null)
    throw new Refused("The call was answered without a run id. Is this a Slipway platform?");
  if (!given.has("wait")) {
    machine.print(given.has("json") ? plainJson({ runId }) : plain(runId));
    machine.tell(
      `It runs in the background. To see its result: slipway runs result ${path.app_id} ${plain(runId)}`,
    );
    return 0;
  }
  machine.tell(`Run ${plain(runId)} runs in the background ...`);
  const run = await waitForRun(at, runId);
  await printResult(at, runId);
  machine.tell(
    `Run ${plain(runId)} ended as ${run.status} after ${spanText(run.totalResponseTimeMs)}.`,
  );
  return run.status === "success" ? 0 : exitCodes.failed;
}

async function refusalOf(
  response: IncomingMessage,
  status: number,
  pairs: readonly string[],
): Promise<Refused> {
  const text = (await whole(received(response))).toString();
  const message = fieldOf(text, "message") ?? text.split("\n").map(plain).join("\n").slice(0, 2000);
  const hint =
    status === 401
      ? "\nCalls of apps take a token made for them. To create one that this command finds: slipway keys create <name> --readable"
      : textHint(status, message, pairs);
  const said = `The call was answered with status ${status}: ${withCommands(message)}${hint}`;
  // With 400, the app found fault with the call: the command was understood.
  return status === 400 ? new Refused(said) : new ApiRefused(status, said, null);
}

/** How to send as text what was taken as JSON, where the runtime says that a text was expected. */
function textHint(status: number, message: string, pairs: readonly string[]): string {
  const name =
    status === 422 ? /the parameter '([^']+)' .*expected a string/.exec(message)?.[1] : undefined;
  const pair = name === undefined ? undefined : pairs.find((one) => one.startsWith(`${name}=`));
  if (name === undefined || pair === undefined) return "";
  const text = pair.slice(name.length + 1);
  return `\n${plain(text)} is valid JSON, so it was sent as JSON. To send it as text: ${quoted(`${name}=${JSON.stringify(text)}`)}`;
}

/** A field of a JSON object as text; null: there is none. */
function fieldOf(text: string, name: string): string | null {
  try {
    const body: unknown = JSON.parse(text);
    const value: unknown =
      typeof body === "object" && body !== null
        ? Object.entries(body).find(([key]) => key === name)?.[1]
        : null;
    return typeof value === "string" ? plain(value) : null;
  } catch {
    // An app may answer anything.
    return null;
  }
}
