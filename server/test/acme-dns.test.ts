// Records in DNS at providers, against stand-ins of their interfaces, and by a program.
import assert from "node:assert/strict";
import { chmodSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { CloudflareRecords } from "#acme/dns-cloudflare.ts";
import { DigitalOceanRecords } from "#acme/dns-digitalocean.ts";
import { DnsHook } from "#acme/dns-hook.ts";
import { dnsProver, type TxtRecords } from "#acme/dns-records.ts";
import { systemClock } from "#lib/clock.ts";
import { Secret } from "#lib/secret.ts";
import { temporaryFolder } from "./support/folder.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

const record = { name: "_acme-challenge.apps.example.co.uk", value: "proof-_1" };
const token = new Secret("provider-token");
const { signal } = new AbortController();

type Asked = { readonly method: string; readonly url: URL; readonly body: Record<string, unknown> };
type Answer = { readonly status: number; readonly body?: object };

/** A server that answers as `answer` says, and refuses other tokens. */
async function standIn(t: TestContext, answer: (asked: Asked) => Answer): Promise<string> {
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk: Buffer) => (text += chunk.toString()));
    request.on("end", () => {
      const isKnown = request.headers.authorization === `Bearer ${token.reveal()}`;
      const { status, body } = isKnown
        ? answer({
            method: request.method ?? "",
            url: new URL(request.url ?? "", "http://provider.test"),
            body: text === "" ? {} : (JSON.parse(text) as Record<string, unknown>),
          })
        : { status: 403, body: { message: "bad token" } };
      response.writeHead(status, { "content-type": "application/json" });
      response.end(body === undefined ? "" : JSON.stringify(body));
    });
  }).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

type Kept = { readonly id: number; readonly name: string; readonly text: string };

/** Cloudflare, with the zone example.co.uk. */
function cloudflare(kept: Kept[]): (asked: Asked) => Answer {
  return ({ method, url, body }) => {
    const { pathname, searchParams } = url;
    if (pathname === "/zones") {
      const isOurs = searchParams.get("name") === "example.co.uk";
      return { status: 200, body: { success: true, result: isOurs ? [{ id: "z1" }] : [] } };
    }
    const [, id] = /^\/zones\/z1\/dns_records(?:\/(\d+))?$/.exec(pathname) ?? [];
    if (method === "POST") {
      kept.push({ id: kept.length + 1, name: String(body["name"]), text: String(body["content"]) });
      return { status: 200, body: { success: true, result: { id: String(kept.length) } } };
    }
    if (method === "GET") {
      const result = kept.filter(
        ({ name, text }) =>
          name === searchParams.get("name") && text === searchParams.get("content"),
      );
      return { status: 200, body: { result: result.map((one) => ({ id: String(one.id) })) } };
    }
    kept.splice(
      kept.findIndex((one) => String(one.id) === id),
      1,
    );
    return { status: 200, body: { result: { id } } };
  };
}

/** DigitalOcean, with the domain example.co.uk. */
function digitalOcean(kept: Kept[]): (asked: Asked) => Answer {
  return ({ method, url, body }) => {
    const { pathname, searchParams } = url;
    if (pathname === "/domains/example.co.uk") return { status: 200, body: { domain: {} } };
    const [, id] = /^\/domains\/example\.co\.uk\/records(?:\/(\d+))?$/.exec(pathname) ?? [null];
    if (!pathname.startsWith("/domains/example.co.uk/")) return { status: 404, body: {} };
    if (method === "POST") {
      const name = `${String(body["name"])}.example.co.uk`;
      kept.push({ id: kept.length + 1, name, text: String(body["data"]) });
      return { status: 201, body: {} };
    }
    if (method === "GET") {
      const found = kept.filter(({ name }) => name === searchParams.get("name"));
      const records = found.map((one) => ({ id: one.id, data: one.text }));
      return { status: 200, body: { domain_records: records } };
    }
    kept.splice(
      kept.findIndex((one) => String(one.id) === id),
      1,
    );
    return { status: 204 };
  };
}

for (const [provider, answers, open, text] of [
  ["Cloudflare", cloudflare, (url: string) => new CloudflareRecords(at(url)), '"proof-_1"'],
  ["DigitalOcean", digitalOcean, (url: string) => new DigitalOceanRecords(at(url)), "proof-_1"],
] as const) {
  test(`records are added and removed at ${provider}, and others of their name stay`, async (t) => {
    const kept: Kept[] = [{ id: 77, name: record.name, text: "of another platform" }];
    const records: TxtRecords = open(await standIn(t, answers(kept)));
    await records.add(record, signal);
    assert.deepEqual(kept[1], { id: 2, name: record.name, text });
    await records.remove(record);
    await records.remove(record);
    assert.deepEqual(
      kept.map(({ id }) => id),
      [77],
    );
    const foreign = { name: "_acme-challenge.example.org", value: "x" };
    await assert.rejects(records.add(foreign, signal), /has no zone for _acme-challenge\.example/);
  });
}

function at(url: string) {
  return { url, token, clock: systemClock };
}

test("a provider's refusal is told without the token", async (t) => {
  const url = await standIn(t, () => ({ status: 200 }));
  const wrong: TxtRecords = new CloudflareRecords({ ...at(url), token: new Secret("other-token") });
  await assert.rejects(wrong.add(record, signal), (error: Error) => {
    assert.match(error.message, /answered GET \/zones\?name=\S+ with 403: .*bad token/);
    assert.doesNotMatch(error.message, /other-token/);
    return true;
  });
});

test("a hook that fails is told with its reason", async (t) => {
  const program = join(temporaryFolder(t, "hook"), "hook.sh");
  writeFileSync(program, '#!/bin/sh\necho "no zone $DNS_RECORD_NAME" >&2\nexit 3\n');
  chmodSync(program, 0o755);
  const environment = { PATH: process.env["PATH"] ?? "" };
  const hook = new DnsHook({ program, environment, clock: systemClock });
  await assert.rejects(
    hook.add(record, signal),
    /\(present\) ended with exit code 3: no zone _acme/,
  );
});

test("a record that no name server has is given up after ten minutes, however slowly they answer", async () => {
  const records: TxtRecords = { add: async () => undefined, remove: async () => undefined };
  const clock = new VirtualClock();
  const slow = new Proxy(clock, {
    get: (target, name) =>
      // After each look, a minute has passed.
      name === "sleep" ? () => target.advance(60_000) : Reflect.get(target, name).bind(target),
  });
  const prover = dnsProver({ records, servers: ["127.0.0.1:1"], clock: slow });
  const proof = { name: "apps.example.org", token: "t", answer: "a" };
  await assert.rejects(prover.show(proof, signal), /was not seen within 10 minutes/);
  assert.equal(clock.monotonicMs(), 600_000);
});

test("a stop ends the wait for a record that no name server has, and the record is taken away", async () => {
  const done: string[] = [];
  const records: TxtRecords = {
    add: async ({ name }) => void done.push(`add ${name}`),
    remove: async ({ name }) => void done.push(`remove ${name}`),
  };
  const clock = new VirtualClock();
  // Nobody answers there.
  const prover = dnsProver({ records, servers: ["127.0.0.1:1"], clock });
  const proof = { name: "apps.example.org", token: "t", answer: "a" };
  const stopping = new AbortController();
  const shown = prover.show(proof, stopping.signal);
  stopping.abort(new Error("stopping"));
  await assert.rejects(shown, /stopping/);
  await prover.hide(proof);
  assert.deepEqual(done, [
    "add _acme-challenge.apps.example.org",
    "remove _acme-challenge.apps.example.org",
  ]);
});
