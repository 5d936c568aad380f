// Files that run once, through the requests that the published client's command sends, with a whole
// platform: what the file prints and answers, how a run ends whose file or build fails, and what a
// restart between build and run changes. Hostile forms are refused.
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { describe, test } from "node:test";
import { Fault } from "#lib/fault.ts";
import { zipOfTar } from "#deploy/tar-files.ts";
import { temporaryFolder } from "./support/folder.ts";
import { startManagementApi, type Json } from "./support/management-api.ts";
import { packageIndexAnswers } from "./support/package-index.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { PublishedClient, send, type Answered } from "./support/published-client.ts";
import { rawTar, tarOf, type TarEntry } from "./support/raw-tar.ts";
import { until } from "./support/until.ts";

type Sent = {
  readonly contentType?: string;
  /** How many bytes of the form are left out at its end. */
  readonly cutBytes?: number;
  readonly name: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Null: the form has none. */
  readonly tar: Buffer | null;
  readonly data?: string;
};
type Place = { readonly baseUrl: string; readonly projectId: string; readonly token: string };

/** As the client prints its numbers, and with the parameters that it leaves empty. */
const usual = { region: "", computeType: "CPU", gpuCount: "0.0", cpu: "1.0", memoryGb: "1.0" };

/** The form in the order of the client. */
async function sendFile(
  { baseUrl, projectId, token }: Place,
  { name, query, tar, data, contentType, cutBytes = 0 }: Sent,
): Promise<Answered> {
  const boundary = "b".repeat(60);
  const part = (head: string, content: Buffer): Buffer[] => [
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; ${head}\r\n\r\n`),
    content,
    Buffer.from("\r\n"),
  ];
  const form = Buffer.concat([
    ...part('name="projectId"', Buffer.from(projectId)),
    ...(data === undefined
      ? []
      : part(
          'name="data"; filename="data.json"\r\nContent-Type: application/json',
          Buffer.from(data),
        )),
    ...(tar === null
      ? []
      : part(`name="file"; filename="${name}.tar"\r\nContent-Type: application/x-tar`, tar)),
    Buffer.from(`--${boundary}--\r\n`),
  ]);
  const bytes = form.subarray(0, form.length - cutBytes);
  const asked = new URLSearchParams({ ...usual, appName: `${projectId}-${name}`, ...query });
  const path = `/v3/projects/${projectId}/apps/${projectId}-${name}/run?${asked.toString()}`;
  const headers = {
    authorization: `Bearer ${token}`,
    "content-type": contentType ?? `multipart/form-data; boundary=${boundary}`,
  };
  return await send("POST", `${baseUrl}${path}`, { bytes, headers });
}

function placeOf(platform: PlatformProcess): Place {
  const { baseUrl, projectId, serviceAccountToken: token } = platform.bootstrap;
  return { baseUrl, projectId, token };
}

/**
 * The client's command: it polls until the status is one of two words, and reads the lines of the
 * run.
 */
async function ended(
  place: Place,
  name: string,
  runId: string,
  lineCount = 1,
): Promise<{ run: Json; lines: string[] }> {
  const client = new PublishedClient(place);
  const app = `/v2/projects/${place.projectId}/apps/${place.projectId}-${name}`;
  const run = await until(
    "the run ends",
    async () => {
      const { body } = await client.ask("GET", `${app}/runs/${runId}`);
      return ["success", "failed"].includes(body.item.status) ? body.item : null;
    },
    { deadlineMs: 240_000 },
  );
  // Output is stored soon after the answer, not before it.
  const lines = await until("the lines of the run are stored", async () => {
    const { body, status } = await client.ask(
      "GET",
      `${app}/logs?runId=${runId}&direction=forward&pageSize=100`,
    );
    const stored: string[] = status === 204 ? [] : body.logs.map((line: Json) => line.logLine);
    return stored.length >= lineCount ? stored : null;
  });
  return { run, lines };
}

async function runFile(platform: PlatformProcess, sent: Sent, lineCount = 1) {
  const place = placeOf(platform);
  const { status, body } = await sendFile(place, sent);
  assert.equal(status, 200, JSON.stringify(body));
  assert.deepEqual(Object.keys(body), ["runId"]);
  return { runId: body.runId as string, ...(await ended(place, sent.name, body.runId, lineCount)) };
}

const greet = `from words import hello

def greet(name, times: int = 1, run_id=""):
    print(hello(name) * times, flush=True)
    return {"said": times, "has_id": len(run_id)}

def fail(**_):
    raise ValueError("it is broken")
`;
/** Like what the published client appends to a script: it calls a function with a usual name. */
const appended = `

# Auto-injected by Cerebrium CLI
if __name__ == "__main__":
    import json
    import os
    import sys

    text = os.environ.get("CEREBRIUM_INPUT_DATA")
    module = sys.modules.get("__main__")
    function = getattr(module, "main", None) or getattr(module, "run")
    try:
        print(function(**json.loads(text)) if text else function())
    except TypeError:
        sys.exit(1)
`;
/** Like what the older client appends. */
const appendedByOlder = `

import sys

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(1)
    func_name = sys.argv[1]
    if func_name == "":
        sys.exit(0)
    sys.exit(2)
`;
const noData = "The file ran as a script: its function needs data, and none was sent.";
const files = { "greet.py": greet, "words.py": "def hello(name):\n    return 'Hello ' + name\n" };

describe("a file that runs once", () => {
  test("is run as the published client asks, each time with its own code", async (t) => {
    const platform = await startPlatformOnTestServer(t);
    const place = placeOf(platform);
    const client = new PublishedClient(place);
    const v3 = `/v3/projects/${place.projectId}/apps/${place.projectId}-greeter`;

    await t.test(
      "a function gets the fields of the data, and its lines are those of the run",
      async () => {
        const made = await client.ask("POST", `${v3}/create-run-app?region=`);
        assert.equal(made.status, 200, JSON.stringify(made.body));
        const wanted = {
          dependencies: { pip: {}, conda: {}, apt: {} },
          preBuildCommands: [],
          shellCommands: [],
        };
        const { body: image } = await client.ask("POST", `${v3}/base-image?region=`, {
          body: wanted,
        });
        assert.equal(image.status, "ready");
        const query = { filename: "greet.py", functionName: "greet", imageDigest: image.digest };
        const { run, lines, runId } = await runFile(platform, {
          name: "greeter",
          query,
          tar: tarOf(files),
          data: '{"name":"Ada","times":2}',
        });
        assert.deepEqual([run.status, run.statusCode], ["success", 200], JSON.stringify(run));
        assert.deepEqual(lines, ["Hello AdaHello Ada"]);
        const result = await client.ask(
          "GET",
          `/v2/projects/${place.projectId}/apps/greeter/runs/${runId}/result`,
        );
        assert.deepEqual(result.body.result, { said: 2, has_id: 36 });
      },
    );
    await t.test("a script needs no function, and other code takes its place at once", async () => {
      const script =
        'import sys\nif __name__ == "__main__":\n    print("as a script", len(sys.argv), flush=True)\n    sys.exit(0)\n';
      const query = { filename: "main.py" };
      const { run, lines } = await runFile(platform, {
        name: "greeter",
        query,
        tar: tarOf({ "main.py": script }),
      });
      assert.deepEqual([run.status, lines], ["success", ["as a script 1"]], JSON.stringify(run));
    });
    await t.test(
      "a function that fails ends the run as failed, with the traceback in its lines",
      async () => {
        const query = { filename: "greet.py", functionName: "fail" };
        const { run, lines } = await runFile(platform, {
          name: "greeter",
          query,
          tar: tarOf(files),
          data: "{}",
        });
        assert.deepEqual([run.status, run.statusCode], ["failed", 500]);
        assert.match(run.reason, /ValueError: it is broken/);
        assert.match(lines.join("\n"), /ValueError: it is broken/);
      },
    );
    await t.test("a file that is no Python ends the run as failed", async () => {
      const query = { filename: "main.py", functionName: "run" };
      const { run, lines } = await runFile(platform, {
        name: "greeter",
        query,
        tar: tarOf({ "main.py": "def run(:\n" }),
      });
      assert.equal(run.status, "failed");
      assert.match(lines.join("\n"), /SyntaxError/);
    });
    await t.test("a build that fails ends the run as failed, with the build's reason", async () => {
      const wanted = {
        shellCommands: [Buffer.from("echo no such thing >&2; exit 3").toString("base64")],
      };
      const { body: image } = await client.ask("POST", `${v3}/base-image?region=`, {
        body: wanted,
      });
      const query = { filename: "greet.py", functionName: "greet", imageDigest: image.digest };
      const sent = { name: "greeter", query, tar: tarOf(files), data: '{"name":"x"}' };
      const { run, lines } = await runFile(platform, sent);
      assert.deepEqual([run.status, run.attempts, lines], ["failed", 0, [run.reason]]);
      assert.match(run.reason, /^The build of its files ended as build_failure\. .*\b3\b/);
    });
    await t.test("packages are installed", { skip: await packageIndexAnswers() }, async () => {
      const wanted = { dependencies: { pip: { "python-slugify": "latest" } } };
      const { body: image } = await client.ask("POST", `${v3}/base-image?region=`, {
        body: wanted,
      });
      const script = 'from slugify import slugify\nprint(slugify("Größe & Co."), flush=True)\n';
      const query = { filename: "./slug.py", imageDigest: image.digest };
      const { run, lines } = await runFile(platform, {
        name: "slugs",
        query,
        tar: tarOf({ "./slug.py": script }),
      });
      assert.deepEqual([run.status, lines], ["success", ["grosse-co"]], JSON.stringify(run));
    });
    assert.deepEqual(await readdir(join(platform.dataDir, "uploads/staging")), []);
  });

  test("is a script that a client has appended a call to, with and without data", async (t) => {
    const platform = await startPlatformOnTestServer(t);
    const needing = "def run(prompt):\n    return prompt + '!'\nprint('worked')\n";
    const ready = "def main():\n    return 'called'\n";
    for (const [script, data, expected] of [
      [needing + appendedByOlder, "{}", ["worked"]],
      [needing + appended, "{}", ["worked", noData]],
      [needing + appended, '{"prompt":"hi"}', ["worked", "hi!"]],
      [ready + appended, "{}", ["called"]],
    ] as const) {
      const query = { filename: "main.py" };
      const tar = tarOf({ "main.py": script });
      const sent = { name: "script", query, tar, data };
      const { run, lines } = await runFile(platform, sent, expected.length);
      assert.equal(run.status, "success", `${script}: ${JSON.stringify(run)}`);
      assert.deepEqual(lines.toSorted(), expected.toSorted(), script);
    }
  });

  test("outlives its platform between the acceptance and the end of its build, and is one at a time", async (t) => {
    const platform = await startPlatformOnTestServer(t);
    const wanted = { shellCommands: [Buffer.from("sleep 3").toString("base64")] };
    const before = placeOf(platform);
    const path = `/v3/projects/${before.projectId}/apps/lasting/base-image`;
    const { body: image } = await new PublishedClient(before).ask("POST", path, { body: wanted });
    const query = { filename: "greet.py", functionName: "greet", imageDigest: image.digest };
    const sent = { name: "lasting", query, tar: tarOf(files), data: '{"name":"Grace"}' };
    const { status, body } = await sendFile(before, sent);
    assert.equal(status, 200, JSON.stringify(body));
    const second = await sendFile(before, sent);
    assert.equal(second.status, 409);
    assert.match(second.body.message, /^Run [0-9a-f-]{36} of another file has not ended yet: wait/);
    await platform.end("SIGKILL");
    await platform.restart();
    const { run, lines } = await ended(placeOf(platform), "lasting", body.runId);
    assert.deepEqual([run.status, lines], ["success", ["Hello Grace"]], JSON.stringify(run));
  });
});

describe("what cannot run", () => {
  const main = { name: "main.py", content: "print(1)" };
  const evil = (entry: TarEntry): Buffer => rawTar([main, entry]);
  const query = { filename: "main.py" };
  const refused: Readonly<Record<string, readonly [Omit<Sent, "name">, number, RegExp]>> = {
    "a symbolic link": [
      { query, tar: evil({ name: "l", type: "2", linkName: "/etc/passwd" }) },
      400,
      /"l" .* is a link/,
    ],
    "a hard link": [
      { query, tar: evil({ name: "l", type: "1", linkName: "main.py" }) },
      400,
      /"l" .* is a link/,
    ],
    "a device": [
      { query, tar: evil({ name: "d", type: "3" }) },
      400,
      /neither a file nor a folder/,
    ],
    "a name outside": [
      { query, tar: evil({ name: "a/../../x", content: "" }) },
      400,
      /name that cannot be stored/,
    ],
    "an absolute name": [
      { query, tar: evil({ name: "/etc/x", content: "" }) },
      400,
      /name that cannot be stored/,
    ],
    "a backslash": [
      { query, tar: evil({ name: "a\\b", content: "" }) },
      400,
      /name that cannot be stored/,
    ],
    "a name twice": [
      { query, tar: evil({ name: "./main.py", content: "" }) },
      400,
      /holds "\.\/main\.py" twice/,
    ],
    "a size that is not there": [
      { query, tar: evil({ name: "x", content: "1", size: 0o7777777777 }) },
      400,
      /cannot be read/,
    ],
    "no tar": [{ query, tar: Buffer.alloc(5000, "x") }, 400, /cannot be read/],
    "an empty tar": [{ query, tar: rawTar([]) }, 400, /has no files/],
    "a tar that is too large": [
      { query, tar: evil({ name: "x", content: Buffer.alloc(1_100_000) }) },
      413,
      /larger than 1 MB/,
    ],
    "a form that breaks off": [
      { query, tar: tarOf({ "main.py": "" }), cutBytes: 300 },
      400,
      /not complete multipart/,
    ],
    "another content type": [
      { query, tar: null, contentType: "application/json" },
      400,
      /must be multipart/,
    ],
    "a form without a file": [{ query, tar: null, data: "{}" }, 400, /no part file/],
    "data that is too large": [
      { query, tar: evil(main), data: `"${"x".repeat(1_000_001)}"` },
      413,
      /data is larger/,
    ],
    "data that is no JSON": [
      { query, tar: tarOf({ "main.py": "" }), data: "{" },
      400,
      /data is not JSON/,
    ],
    "data that is a list": [
      { query, tar: tarOf({ "main.py": "" }), data: "[1]" },
      400,
      /data must be a JSON object/,
    ],
    "a file that is not in the tar": [
      { query: { filename: "x.py" }, tar: tarOf({ "main.py": "" }) },
      400,
      /"x\.py", but the tar/,
    ],
    "a file outside": [
      { query: { filename: "../x.py" }, tar: tarOf({ "main.py": "" }) },
      400,
      /filename is "\.\.\/x\.py"/,
    ],
    "no file name": [{ tar: tarOf({ "main.py": "" }) }, 400, /filename is missing/],
    "no function": [
      { query: { ...query, functionName: "a-b" }, tar: evil(main) },
      400,
      /functionName is "a-b"/,
    ],
    "a digest of nobody": [
      { query: { ...query, imageDigest: "abc" }, tar: evil(main) },
      400,
      /imageDigest is not a digest that/,
    ],
    "hardware of no machine": [
      { query: { ...query, cpu: "9999" }, tar: evil(main) },
      400,
      /cpu is 9999/,
    ],
  };

  test("is refused with the reason, and leaves nothing behind", async (t) => {
    const api = await startManagementApi(t);
    for (const [what, [sent, status, message]] of Object.entries(refused)) {
      const answer = await sendFile(api, { name: "refused", ...sent });
      assert.equal(answer.status, status, `${what}: ${JSON.stringify(answer.body)}`);
      assert.match(answer.body.message, message, what);
    }
    assert.deepEqual((await api.call("GET", `/v2/projects/${api.projectId}/apps`)).body, []);
    assert.deepEqual(await readdir(join(api.uploadsDir, "staging")), []);
  });

  test("takes no place of an app that was deployed, while a deployment takes that of a file", async (t) => {
    const api = await startManagementApi(t);
    const apps = `/v2/projects/${api.projectId}/apps`;
    const sent = { name: "mine", query, tar: tarOf({ "main.py": "" }) };
    assert.equal((await sendFile(api, sent)).status, 200);
    assert.equal((await api.call("POST", apps, { body: { name: "mine" } })).status, 201);
    const begun = await api.call(
      "POST",
      `/v3/projects/${api.projectId}/apps/mine/create-run-app?region=`,
    );
    for (const answer of [await sendFile(api, sent), begun]) {
      assert.equal(answer.status, 409);
      assert.match(
        answer.body.message,
        /^The app "mine" was deployed, and a file that runs would take its place/,
      );
    }
  });

  test("is cancelled with its build while it waits for that", async (t) => {
    const api = await startManagementApi(t);
    const app = `/v2/projects/${api.projectId}/apps/mine`;
    const { body } = await sendFile(api, { name: "mine", query, tar: tarOf({ "main.py": "" }) });
    const cancelled = await api.call("DELETE", `${app}/runs/${body.runId}`);
    assert.equal(cancelled.status, 200);
    assert.match(cancelled.body.item.reason, /^It was cancelled before/);
    const builds = (await api.call("GET", `${app}/builds`)).body as Json;
    assert.deepEqual(
      builds.map(({ status }: Json) => status),
      ["cancelled"],
    );
  });

  test("is a tar whose headers are longer than memory allows", async (t) => {
    const tar = rawTar([
      { name: "x", type: "x", content: Buffer.alloc(6_000_000), size: 900_000_000 },
    ]);
    const pieces = Array.from({ length: Math.ceil(tar.length / 65_536) }, (_, at) =>
      tar.subarray(at * 65_536, (at + 1) * 65_536),
    );
    const zipPath = join(temporaryFolder(t, "tar"), "zip");
    const given = {
      zipPath,
      bytesMax: 1e9,
      folder: "files",
      others: {},
      requireSpace: () => undefined,
      signal: new AbortController().signal,
    };
    await assert.rejects(zipOfTar(Readable.from(pieces), given), (error) => {
      assert.ok(error instanceof Fault);
      assert.match(error.message, /without the content of a file/);
      return true;
    });
  });

  test("is an environment that says what is not understood", async (t) => {
    const api = await startManagementApi(t);
    const path = `/v3/projects/${api.projectId}/apps/made/base-image`;
    const bodies: readonly [unknown, RegExp][] = [
      [{ dependencies: { pip: { numpy: 1 } } }, /^dependencies\.pip\.numpy is not valid/],
      [{ shellCommands: ["*"] }, /^shellCommands\.0 is not valid/],
      [
        { dependencies: { pip: { numpy: "1\n2" } } },
        /dependencies\.pip in config_toml, package "numpy",/,
      ],
      [{ baseImageURI: "not an image" }, /docker_base_image_url/],
      [[], /^The body is not valid/],
    ];
    for (const [body, message] of bodies) {
      const answer = await api.call("POST", path, { body });
      assert.equal(answer.status, 400, JSON.stringify(answer.body));
      assert.match(answer.body.message, message);
    }
  });
});
