// Calls through the proxy, over real sockets: what reaches the replica, what reaches the client,
// and that neither side's bytes are kept back or changed.
import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import {
  bedTokens,
  helloPath,
  httpReplica,
  bothWays,
  projectId,
  rawReplica,
} from "./support/proxy-bed.ts";
import { systemClock } from "#lib/clock.ts";
import { until } from "./support/until.ts";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

test(
  "a call reaches the replica with its path, query, fields and body, and the answer comes back",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const seen: { line: string; headers: IncomingMessage["headers"]; body: string }[] = [];
    const port = await httpReplica(t, async (request, response) => {
      seen.push({
        line: `${request.method} ${request.url}`,
        headers: request.headers,
        body: await bodyOf(request),
      });
      response.writeHead(201, {
        "content-type": "application/json",
        "x-app": "yes",
        "x-request-id": "made-up",
      });
      response.end('{"result":"ok"}');
    });
    bed.setReplicas(port);
    const response = await bed.call("/run/a%20b//c?x=1&async=false&y=%2F", {
      method: "POST",
      body: '{"name":"Ada"}',
      headers: { "content-type": "application/json", "x-mine": "1", "x-request-id": "forged" },
    });
    assert.equal(response.status, 201);
    assert.equal(await response.text(), '{"result":"ok"}');
    assert.equal(response.headers.get("x-app"), "yes");
    const runId = response.headers.get("x-request-id") ?? "";
    assert.match(runId, uuid);
    const [call] = seen;
    assert.equal(call?.line, "POST /run/a%20b//c?x=1&y=%2F");
    assert.equal(call?.body, '{"name":"Ada"}');
    assert.equal(call?.headers["x-request-id"], runId, "the app is told the run's id");
    assert.equal(call?.headers["x-mine"], "1");
    assert.equal(
      call?.headers.authorization,
      undefined,
      "the app does not get the platform's token",
    );
    assert.equal(call?.headers["x-forwarded-for"], "127.0.0.1");
    assert.equal(call?.headers["x-forwarded-proto"], "http");
    assert.equal(call?.headers.host, `127.0.0.1:${bed.port}`);
    assert.equal(call?.headers["x-forwarded-host"], `127.0.0.1:${bed.port}`);
  }),
);

test(
  "whoever has no valid token gets 401, whether or not there is such an app",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const invalid = [
      "",
      "Bearer wrong",
      "Basic abc",
      "Bearer",
      `Bearer ${bedTokens.operator}`,
      "Bearer late.wrong",
    ];
    for (const app of ["hello", "nothing"]) {
      for (const authorization of invalid) {
        const response = await fetch(`http://127.0.0.1:${bed.port}/v4/${projectId}/${app}/run`, {
          headers: authorization === "" ? {} : { authorization },
        });
        assert.equal(response.status, 401, `${app} with ${authorization}`);
        assert.match(((await response.json()) as { message: string }).message, /token/i);
        assert.match(response.headers.get("x-request-id") ?? "", uuid);
        assert.equal(response.headers.get("www-authenticate"), "Bearer");
      }
    }
  }),
);

test(
  "an unknown app, an unknown project and a project of others all answer the same 404",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const ask = async (path: string, token: string): Promise<string> => {
      const response = await fetch(`http://127.0.0.1:${bed.port}${path}`, {
        headers: { authorization: `Bearer ${token}` },
      });
      return `${response.status} ${await response.text()}`;
    };
    const message = (app: string, project: string): string =>
      `404 {"message":"There is no app ${app} in project ${project}."}`;
    assert.equal(
      await ask(`/v4/${projectId}/nothing/run`, bedTokens.project),
      message("nothing", projectId),
    );
    assert.equal(await ask("/v4/p-none/hello/run", bedTokens.project), message("hello", "p-none"));
    assert.equal(
      await ask(`/v4/${projectId}/hello/run`, bedTokens.foreign),
      message("hello", projectId),
    );
    assert.match(await ask("/v4/", bedTokens.project), /^404 .*\/v4\/\{project\}\/\{app\}/);
  }),
);

test(
  "a token that was never seen is checked once and then lets the call pass",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(await httpReplica(t, (_request, response) => response.end("ok")));
    const response = await bed.call("/run", {
      headers: { authorization: `Bearer late.${bedTokens.project}` },
    });
    assert.equal(await response.text(), "ok");
    assert.equal(
      (await bed.call("/run", { headers: { authorization: "Bearer late.broken" } })).status,
      503,
    );
  }),
);

test(
  "an app without authentication takes every call, and its callers' tokens are its own",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, { route: { disableAuth: true } });
    bed.setReplicas(
      await httpReplica(t, (request, response) =>
        response.end(request.headers.authorization ?? "none"),
      ),
    );
    const url = `http://127.0.0.1:${bed.port}${helloPath}/run`;
    assert.equal(await (await fetch(url)).text(), "none");
    assert.equal(
      await (await fetch(url, { headers: { authorization: "Basic mine" } })).text(),
      "Basic mine",
    );
  }),
);

test(
  "an app without a release answers 503 with the state of its build",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, {
      route: { live: null, latestBuild: { status: "building", reason: null } },
    });
    const building = await bed.call("/run");
    assert.equal(building.status, 503);
    assert.match(
      await building.text(),
      /has no release yet: its latest build is in state building/,
    );
    assert.ok(building.headers.get("retry-after"));
    bed.setRoute({ latestBuild: { status: "build_failure", reason: "no main.py" } });
    assert.match(await (await bed.call("/run")).text(), /build_failure: no main\.py/);
    bed.setRoute({
      latestBuild: { status: "success", reason: null },
      unreadable: "Its settings are wrong.",
    });
    const unreadable = await bed.call("/run");
    assert.equal(unreadable.status, 503);
    assert.match(await unreadable.text(), /hello cannot be started\. Its settings are wrong\./);
    bed.setRoute({ disableAuth: true });
    const { message } = (await (await bed.call("/run")).json()) as { message: string };
    assert.equal(message, "hello cannot be started.", "strangers do not get the settings");
  }),
);

test(
  "strangers do not get the reason why an app that is open to them cannot start; its record does",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, {
      route: { disableAuth: true },
      settings: { disableAuth: true },
    });
    const reason = "No replica of the app runs: KeyError: 'secret'.";
    const retryAtMs = systemClock.monotonicMs() + 60_000;
    bed.view.put(bed.appId, { ready: [], failure: { kind: "start_failed", reason, retryAtMs } });
    const refused = await bed.call("/run");
    assert.equal(refused.status, 503);
    assert.ok(Number(refused.headers.get("retry-after")) > 0);
    const { message } = (await refused.json()) as { message: string };
    assert.equal(
      message,
      "The app cannot be started. Its owner finds the reason in its state and in its log.",
    );
    await until("the call is recorded", () => bed.finished.length === 1);
    assert.equal(bed.finished[0]?.reason, reason);
  }),
);

test(
  "async is refused clearly when it is neither true nor false",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const invalid = await bed.call("/run?async=maybe");
    assert.equal(invalid.status, 400);
    assert.match(await invalid.text(), /async must be true or false; given: \\"maybe\\"/);
  }),
);

test(
  "answers without a body pass as they are",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(
      await rawReplica(t, (socket) => {
        socket.on("data", (chunk: Buffer) => {
          const line = chunk.toString("latin1");
          if (line.startsWith("HEAD"))
            socket.write("HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n");
          else if (line.includes("/none")) socket.write("HTTP/1.1 204 No Content\r\n\r\n");
          else socket.write('HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nContent-Length: 7\r\n\r\n');
        });
      }),
    );
    const head = await bed.call("/x", { method: "HEAD" });
    assert.deepEqual(
      [head.status, head.headers.get("content-length"), await head.text()],
      [200, "42", ""],
    );
    const none = await bed.call("/none");
    assert.deepEqual([none.status, await none.text()], [204, ""]);
    const same = await bed.call("/same");
    assert.deepEqual([same.status, same.headers.get("etag"), await same.text()], [304, '"a"', ""]);
  }),
);

test(
  "an answer that ends with its connection is handed on whole",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(
      await rawReplica(t, (socket) => {
        socket.once("data", () =>
          socket.end("HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\nold but fine"),
        );
      }),
    );
    for (let times = 0; times < 3; times++)
      assert.equal(await (await bed.call("/run")).text(), "old but fine");
  }),
);

test(
  "a client of HTTP/1.0 gets an answer that it understands",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(
      await httpReplica(t, (_request, response) => {
        response.write("in ");
        response.end("chunks");
      }),
    );
    const client = await bed.connect();
    client.send(
      `GET ${helloPath}/run HTTP/1.0\r\nAuthorization: Bearer ${bedTokens.project}\r\n\r\n`,
    );
    await client.sawEnd();
    assert.match(client.text, /\r\n\r\nin chunks$/);
    assert.doesNotMatch(client.text, /transfer-encoding/i);
  }),
);

test(
  "a body that is larger than the limit is refused, announced or not",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, { limits: { bodyBytesMax: 100_000 } });
    let requests = 0;
    bed.setReplicas(
      await httpReplica(t, (request) => {
        requests++;
        request.on("error", () => undefined);
        request.resume();
      }),
    );
    const announced = await bed.connect();
    announced.ask(`POST ${helloPath}/run`, ["Content-Length: 100001"]);
    await announced.sees("HTTP/1.1 413 ");
    assert.equal(requests, 0);
    const chunked = await bed.connect();
    chunked.ask(
      `POST ${helloPath}/run`,
      ["Transfer-Encoding: chunked"],
      `186a1\r\n${"x".repeat(100_001)}\r\n`,
    );
    await chunked.sees("HTTP/1.1 413 ");
    await chunked.sees("larger than 100000 bytes");
    await until("nothing runs any more", () => bed.proxy.apps.demandOf(bed.appId).running === 0);
  }),
);

test(
  "who sends a large body that is refused gets the answer and no reset, however much is still to come",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const bodies: string[] = [];
    bed.setReplicas(
      await httpReplica(t, (request, response) => {
        request.on("error", () => undefined);
        bodies.push("begun");
        response.writeHead(413).end("too much for the app");
      }),
    );
    const length = 8_000_000;
    const strange = await bed.connect();
    const known = await bed.connect();
    strange.send(
      `POST ${helloPath}/run HTTP/1.1\r\nHost: test\r\nContent-Length: ${length}\r\n\r\n`,
    );
    known.ask(`POST ${helloPath}/run`, [`Content-Length: ${length}`]);
    for (const [client, answer] of [
      [strange, "HTTP/1.1 401 "],
      [known, "too much for the app"],
    ] as const) {
      client.send("x".repeat(100_000));
      await client.sees(answer);
      // Rejects when the connection is reset.
      await new Promise<void>((resolve, reject) => {
        client.socket.once("error", reject);
        client.socket.write("x".repeat(length - 100_000), (error) =>
          error ? reject(error) : resolve(),
        );
      });
    }
    assert.deepEqual(bodies, ["begun"]);
    await strange.sawEnd();
    known.ask(`GET ${helloPath}/run`);
    await until("the connection is used again", () => bodies.length === 2);
  }),
);

test(
  "a refused call with a small body leaves its connection usable",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(await httpReplica(t, (_request, response) => response.end("ok")));
    const client = await bed.connect();
    client.send(`POST ${helloPath}/run HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody`);
    await client.sees("HTTP/1.1 401 ");
    client.ask(`GET ${helloPath}/run`);
    await client.sees("HTTP/1.1 200 ");
  }),
);

test(
  "each call that has ended is told about, with what it took",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(
      await httpReplica(t, async (request, response) => {
        await bodyOf(request);
        response.writeHead(418).end("short");
      }),
    );
    const response = await bed.call("/run?secret=1", { method: "POST", body: "12345" });
    await response.text();
    await until("the call is told about", () => bed.finished.length === 1);
    const [call] = bed.finished;
    assert.equal(call?.runId, response.headers.get("x-request-id"));
    const { outcome, status, method, path, requestBytes, answerBytes, isWebSocket, lineMs } =
      call ?? {};
    assert.deepEqual(
      { outcome, status, method, path, requestBytes, answerBytes, isWebSocket, lineMs },
      {
        outcome: "answered",
        status: 418,
        method: "POST",
        path: "/run",
        isWebSocket: false,
        requestBytes: 5,
        answerBytes: 5,
        lineMs: 0,
      },
    );
  }),
);

test(
  "calls are counted by app and class of status",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(
      await httpReplica(t, (request, response) =>
        response.writeHead(request.url === "/a" ? 200 : 500).end(),
      ),
    );
    for (const path of ["/a", "/a", "/b"]) await (await bed.call(path)).text();
    const [meter] = bed.proxy.apps.meters();
    assert.deepEqual(
      [meter?.appId, meter?.answers, meter?.running],
      [bed.appId, [0, 2, 0, 0, 1], 0],
    );
    const { buckets } = bed.proxy.apps.times.duration;
    assert.equal(
      buckets.reduce((sum, count) => sum + count),
      3,
    );
  }),
);
