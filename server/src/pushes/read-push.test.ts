// What each kind of git host sends: whose it is, whether it is signed, and which refs it moves.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createRequire } from "node:module";
import { test } from "node:test";
import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { makeWebhookSecret } from "#lib/webhook-signature.ts";
import {
  after,
  before,
  bitbucketPush,
  giteaPush,
  gitlabPush,
} from "#test/support/push-payloads.ts";
import { eventOf, readPush, type Headers } from "./read-push.ts";

const secret = makeWebhookSecret().reveal();
const nowMs = 1_800_000_000_000;
const zeros = "0".repeat(40);

type Examples = readonly {
  readonly name: string;
  readonly examples: readonly Record<string, unknown>[];
}[];
const examples = createRequire(import.meta.url)("@octokit/webhooks-examples") as Examples;

function examplesOf(name: string): readonly Record<string, unknown>[] {
  return (
    examples.find((definition) => definition.name === name)?.examples ??
    assert.fail(`no examples of ${name}`)
  );
}

function hexOf(body: Buffer, key = secret): string {
  return createHmac("sha256", key).update(body).digest("hex");
}

/** How each host signs. */
const senders: Readonly<Record<string, (event: string, body: Buffer, key?: string) => Headers>> = {
  github: (event, body, key) => ({
    "x-github-event": event,
    "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
    "x-hub-signature-256": `sha256=${hexOf(body, key)}`,
  }),
  gitea: (event, body, key) => ({
    "x-gitea-event": event,
    "x-gitea-delivery": "f6266f16-1bf3-46a5-9ea4-602e06ead473",
    "x-gitea-signature": hexOf(body, key),
    "x-github-event": event,
    "x-github-delivery": "f6266f16-1bf3-46a5-9ea4-602e06ead473",
    "x-hub-signature-256": `sha256=${hexOf(body, key)}`,
  }),
  gitlab: (event, _body, key = secret) => ({
    "x-gitlab-event": event,
    "x-gitlab-event-uuid": "13792a34-cac6-4fda-95a8-c58e00a3954e",
    "x-gitlab-token": key,
  }),
  bitbucket: (event, body, key) => ({
    "x-event-key": event,
    "x-request-uuid": "5f7c1f4a-5b2e-4b39-9a3b-0f8a8a1d7f9d",
    "x-hub-signature": `sha256=${hexOf(body, key)}`,
  }),
};

function read(headers: Headers, body: Buffer) {
  const event = eventOf(headers, body);
  return event === null ? null : { event, ...readPush(event, { headers, body, secret, nowMs }) };
}

function updatesOf(sender: string, event: string, payload: unknown) {
  const body = Buffer.from(JSON.stringify(payload));
  const found = read(senders[sender]?.(event, body) ?? {}, body);
  assert.ok(found?.ok === true, JSON.stringify(found));
  assert.equal(found.event.host.kind, sender);
  return found.updates;
}

test("GitHub's own examples are read: branches, tags, deletions, and events that are no pushes", () => {
  const updates = examplesOf("push").map((payload) => updatesOf("github", "push", payload));
  const shown = updates.map(([one]) => [
    one?.ref,
    one?.before,
    one?.after,
    one?.message,
    one?.author,
    one?.files,
  ]);
  const commit = "6113728f27ae82c7b1a177c8d03f9e96e0adf246";
  assert.ok(shown.length >= 7);
  assert.deepEqual(shown[0]?.slice(0, 3), ["refs/tags/simple-tag", null, commit]);
  assert.deepEqual(shown[1], ["refs/tags/simple-tag", commit, null, null, null, []]);
  const author = "Codertocat <21031067+Codertocat@users.noreply.github.com>";
  const created = ["refs/heads/master", null, commit, "Initial commit", author, ["README.md"]];
  assert.deepEqual(
    shown.find(([ref]) => ref === "refs/heads/master"),
    created,
  );
  for (const { name, examples: bodies } of examples) {
    if (name === "push") continue;
    for (const body of bodies) assert.deepEqual(updatesOf("github", name, body), [], name);
  }
});

test("Gitea, Forgejo and GitLab are read by the same names, and never claim that their list is complete", () => {
  const expected = {
    ref: "refs/heads/main",
    before,
    after,
    message: "Change the answer\n",
    author: "Ada Example <ada@example.com>",
    files: ["main.py"],
    isComplete: false,
  };
  assert.deepEqual(updatesOf("gitea", "push", giteaPush()), [expected]);
  assert.deepEqual(updatesOf("gitlab", "Push Hook", gitlabPush()), [expected]);
  const body = Buffer.from(JSON.stringify(giteaPush()));
  const forgejo = {
    "x-forgejo-event": "push",
    "x-forgejo-delivery": "1",
    "x-forgejo-signature": hexOf(body),
    "x-github-event": "push",
  };
  assert.equal(read(forgejo, body)?.event.host.kind, "gitea");
  assert.equal(read(forgejo, body)?.ok, true);
  const deleted = { before, after: zeros };
  for (const [sender, event, payload] of [
    ["gitea", "push", giteaPush(deleted)],
    ["gitlab", "Push Hook", gitlabPush(deleted)],
  ] as const) {
    const [one] = updatesOf(sender, event, payload);
    assert.deepEqual([one?.after, one?.message], [null, null]);
  }
  const tag = gitlabPush({ kind: "tag_push", ref: "refs/tags/v1", before: zeros });
  assert.equal(updatesOf("gitlab", "Tag Push Hook", tag)[0]?.ref, "refs/tags/v1");
  assert.deepEqual(updatesOf("gitlab", "Merge Request Hook", { object_kind: "merge_request" }), []);
});

test("Bitbucket moves several refs at once", () => {
  const main = { type: "branch", name: "main" } as const;
  const moved = { old: { ...main, hash: before }, new: { ...main, hash: after } };
  const tagged = { old: null, new: { type: "tag", name: "v1", hash: after } as const };
  const dropped = { old: { type: "branch", name: "old", hash: before } as const, new: null };
  const updates = updatesOf("bitbucket", "repo:push", bitbucketPush([tagged, moved, dropped]));
  assert.deepEqual(
    updates.map(({ ref, before: from, after: to }) => [ref, from, to]),
    [
      ["refs/tags/v1", null, after],
      ["refs/heads/main", before, after],
      ["refs/heads/old", before, null],
    ],
  );
  assert.deepEqual(
    [updates[1]?.message, updates[1]?.author],
    ["Change the answer\n", "Ada Example <ada@example.com>"],
  );
  assert.deepEqual(updatesOf("bitbucket", "diagnostics:ping", { test: true }), []);
});

test("GitHub lists every file of an ordinary push, and what may be cut off is not complete", () => {
  const commit = {
    id: after,
    message: "m",
    author: { name: "Ada" },
    added: [],
    removed: ["b"],
    modified: ["a"],
  };
  const push = {
    ref: "refs/heads/main",
    before,
    after,
    created: false,
    forced: false,
    head_commit: commit,
  };
  const isComplete = (changes: object): boolean | undefined =>
    updatesOf("github", "push", { ...push, commits: [commit], ...changes })[0]?.isComplete;
  assert.equal(isComplete({}), true);
  assert.deepEqual(updatesOf("github", "push", { ...push, commits: [commit] })[0]?.files, [
    "b",
    "a",
  ]);
  assert.equal(isComplete({ forced: true }), false);
  assert.equal(isComplete({ created: true }), false);
  assert.equal(isComplete({ commits: [] }), false);
  assert.equal(isComplete({ commits: Array.from({ length: 2048 }, () => commit) }), false);
  const many = Array.from({ length: 3000 }, (_, index) => `f${index}`);
  assert.equal(isComplete({ commits: [{ ...commit, added: many }] }), false);
});

test("only who knows the secret can sign, over exactly the bytes that were sent", () => {
  const payloads = {
    github: examplesOf("push")[0],
    gitea: giteaPush(),
    bitbucket: bitbucketPush([]),
  };
  for (const [sender, payload] of Object.entries(payloads)) {
    const headersOf = senders[sender] ?? assert.fail();
    const event = sender === "bitbucket" ? "repo:push" : "push";
    const body = Buffer.from(JSON.stringify(payload, null, 1));
    const signed = headersOf(event, body);
    assert.equal(read(signed, body)?.ok, true, sender);
    // The same JSON in other bytes.
    const reason = "the signature is missing, or was not made with the secret of this address";
    const refused = (headers: Headers, given: Buffer): void => {
      const found = read(headers, given);
      assert.deepEqual(
        found?.ok === false && found.reason,
        reason,
        `${sender} ${JSON.stringify(headers)}`,
      );
    };
    refused(signed, Buffer.from(JSON.stringify(payload)));
    refused(headersOf(event, body, "another secret"), body);
    const signatures = Object.keys(signed).filter((name) => name.includes("signature"));
    for (const value of [
      "",
      "sha256=",
      `sha256=${"0".repeat(64)}`,
      hexOf(body).toUpperCase(),
      [hexOf(body)],
    ]) {
      refused({ ...signed, ...Object.fromEntries(signatures.map((name) => [name, value])) }, body);
    }
    refused(
      Object.fromEntries(Object.entries(signed).filter(([name]) => !signatures.includes(name))),
      body,
    );
  }
});

test("GitLab proves itself by its token or by its signing token, within five minutes", () => {
  const body = Buffer.from(JSON.stringify(gitlabPush()));
  const event = { "x-gitlab-event": "Push Hook" };
  const signedAt = (seconds: number): Headers => ({
    ...event,
    "webhook-id": "msg-1",
    "webhook-timestamp": String(seconds),
    "webhook-signature": new Webhook(secret).sign(
      "msg-1",
      new Date(seconds * 1000),
      body.toString(),
    ),
  });
  const isOk = (headers: Headers, given = body): boolean | undefined => read(headers, given)?.ok;
  assert.equal(isOk(signedAt(nowMs / 1000)), true);
  assert.equal(isOk(signedAt(nowMs / 1000 - 299)), true);
  assert.equal(isOk(signedAt(nowMs / 1000 - 301)), false);
  assert.equal(isOk(signedAt(nowMs / 1000 + 301)), false);
  assert.equal(isOk({ ...signedAt(nowMs / 1000), "webhook-id": "msg-2" }), false);
  assert.equal(isOk(signedAt(nowMs / 1000), Buffer.from("{}")), false);
  assert.equal(isOk({ ...event, "x-gitlab-token": secret }), true);
  for (const token of ["", "x", secret.slice(1), `${secret}x`]) {
    assert.equal(isOk({ ...event, "x-gitlab-token": token }), false, token);
  }
});

test("a delivery is known by the host's id, and without one by its bytes", () => {
  const body = Buffer.from("{}");
  for (const [sender, headersOf] of Object.entries(senders)) {
    const key = eventOf(headersOf("push", body), body)?.deliveryKey;
    assert.match(key ?? "", /^[0-9a-f]{8}-/, sender);
  }
  const one = eventOf({ "x-github-event": "push" }, body)?.deliveryKey;
  assert.equal(one, eventOf({ "x-github-event": "ping" }, body)?.deliveryKey);
  assert.notEqual(one, eventOf({ "x-github-event": "push" }, Buffer.from("[]"))?.deliveryKey);
  assert.equal(eventOf({ "user-agent": "curl" }, body), null);
});

test("a form is read like JSON, and a body of another form is refused with a sentence, whatever it is", () => {
  const json = JSON.stringify(giteaPush());
  const form = Buffer.from(`payload=${encodeURIComponent(json)}`);
  const sent = {
    ...senders["gitea"]?.("push", form),
    "content-type": "application/x-www-form-urlencoded",
  };
  assert.equal(read(sent, form)?.ok, true);
  const values = fc.oneof(
    fc.json(),
    fc.string(),
    fc
      .record({ ref: fc.anything(), before: fc.anything(), commits: fc.anything() })
      .map((one) => JSON.stringify(one)),
  );
  const events = { github: "push", gitea: "push", gitlab: "Push Hook", bitbucket: "repo:push" };
  fc.assert(
    fc.property(values, fc.constantFrom(...Object.entries(events)), (text, [sender, event]) => {
      const body = Buffer.from(text);
      const found = read(senders[sender]?.(event, body) ?? {}, body);
      assert.ok(found?.ok === true || found?.reason.startsWith("the body is not ") === true, text);
    }),
  );
});
