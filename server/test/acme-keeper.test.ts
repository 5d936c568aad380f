// When certificates are requested, with an authority in memory: outages, limits, many names, and a
// platform that dies in the middle of an order.
import assert from "node:assert/strict";
import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { execFileSync } from "node:child_process";
import { test, type TestContext } from "node:test";
import {
  AuthorityError,
  type Authority,
  type CertificateOrder,
  type Prover,
} from "#acme/authority.ts";
import { CertificateKeeper } from "#acme/certificate-keeper.ts";
import { CertificateUseCases } from "#acme/certificate-use-cases.ts";
import { platformActor } from "#audit/record.ts";
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import { testDatabase } from "./support/database.ts";
import { temporaryFolder } from "./support/folder.ts";
import { movableClock } from "./support/movable-clock.ts";
import { until } from "./support/until.ts";
import { noOpenssl } from "./support/tls-files.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const prover: Prover = {
  kind: "http-01",
  show: () => Promise.resolve(),
  hide: () => Promise.resolve(),
};

/** Signs in memory; refuses while `refusal` is set. */
class FakeAuthority implements Authority {
  readonly #folder: string;
  readonly orders: CertificateOrder[] = [];
  readonly revoked: string[] = [];
  refusal: AuthorityError | null = null;
  /** Makes an order that never ends. */
  isHanging = false;
  /** How many orders were under way at once. */
  atOnce = 0;
  #running = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async issue(order: CertificateOrder): Promise<string> {
    this.atOnce = Math.max(this.atOnce, ++this.#running);
    try {
      this.orders.push(order);
      if (this.refusal !== null) throw this.refusal;
      await order.onOrder(`https://authority.test/order/${order.name}`);
      if (this.isHanging) await new Promise(() => undefined);
      return this.#sign(order);
    } finally {
      this.#running -= 1;
    }
  }

  revoke(chain: string): Promise<void> {
    this.revoked.push(chain);
    return Promise.resolve();
  }

  #sign({ name, key }: CertificateOrder): string {
    const keyFile = join(this.#folder, "order.key");
    writeFileSync(keyFile, key);
    const about = ["-subj", "/CN=order", "-addext", `subjectAltName=DNS:${name}`, "-days", "90"];
    const parameters = ["req", "-x509", "-new", "-key", keyFile, ...about];
    return execFileSync("openssl", parameters, { encoding: "utf8" });
  }
}

async function openBed(t: TestContext, wanted: readonly string[]) {
  const { db } = await testDatabase(t);
  const authority = new FakeAuthority(temporaryFolder(t, "acme"));
  const moved = movableClock();
  const { sleep, after, isSettled, now, monotonicMs } = moved;
  const clock: Clock = { sleep, after, isSettled, now, monotonicMs, random: () => 0.5 };
  const mails: string[] = [];
  const names = { wanted };
  const source = {
    zone: "own" as const,
    names: () => names.wanted,
    projectOf: (name: string) => (/-(p-\d+)\./.exec(name)?.[1] ?? null) as ProjectId | null,
    onChange: () => () => undefined,
  };
  const open = async (): Promise<CertificateKeeper> => {
    const keeper = new CertificateKeeper({
      db,
      sealer: new Sealer(["ab".repeat(32)]),
      log: silentLog,
      clock,
      authority,
      sources: [source],
      newNamesPerWeek: 3,
      proverFor: () => prover,
      mailOperator: ({ subject }) => void mails.push(subject),
    });
    await keeper.load();
    return keeper;
  };
  const { signal } = new AbortController();
  /** What operators can do. */
  const operate = (keeper: CertificateKeeper | null) =>
    new CertificateUseCases({
      db,
      clock,
      keeper: keeper === null ? null : { needs: (name) => keeper.needs(name), nudge: () => {} },
    });
  const rowOf = (name: string) =>
    db.selectFrom("certificates").selectAll().where("name", "=", name).executeTakeFirstOrThrow();
  return { db, authority, moved, mails, names, open, operate, signal, rowOf, now };
}

function heldBy(keeper: CertificateKeeper): Map<string, string> {
  const held = new Map<string, string>();
  keeper.serve({
    take: (name, texts) => void (texts === null ? held.delete(name) : held.set(name, texts.key)),
    isGiven: () => false,
  });
  return held;
}

test(
  "200 names get a certificate each, few at once, and none twice",
  { skip: noOpenssl },
  async (t) => {
    const wanted = Array.from({ length: 200 }, (_, index) => `app-${index}.example.org`);
    const { authority, open, signal } = await openBed(t, wanted);
    const keeper = await open();
    await keeper.turn(signal);
    await keeper.turn(signal);
    assert.equal(authority.orders.length, 200);
    assert.equal(heldBy(keeper).size, 200);
    assert.ok(authority.atOnce <= 4, String(authority.atOnce));
    const restarted = await open();
    await restarted.turn(signal);
    assert.equal(authority.orders.length, 200);
    assert.equal(heldBy(restarted).size, 200);
  },
);

test(
  "while the authority is down, tries become rare, the certificate stays, and the operator is warned",
  { skip: noOpenssl },
  async (t) => {
    const name = "slipway.example.org";
    const { authority, moved, mails, open, signal, rowOf, now } = await openBed(t, [name]);
    const keeper = await open();
    await keeper.turn(signal);
    const { ends_at: ends, next_try_at: renewal } = await rowOf(name);
    assert.ok(ends !== null && ends.getTime() - renewal.getTime() >= 29 * dayMs);
    moved.moveMs += renewal.getTime() - now();
    authority.refusal = new AuthorityError("authority.test does not answer: ECONNREFUSED");
    authority.orders.length = 0;
    for (let minutes = 0; minutes < 24 * 60; minutes += 5) {
      await keeper.turn(signal);
      moved.moveMs += 5 * 60_000;
    }
    assert.ok(authority.orders.length >= 5 && authority.orders.length <= 10);
    const failing = (await rowOf(name)).failing_since?.getTime() ?? 0;
    assert.ok(now() - failing >= dayMs - 5 * 60_000, "it is the first failure that counts");
    assert.equal(heldBy(keeper).size, 1);
    assert.deepEqual(mails, []);
    assert.match((await rowOf(name)).last_error ?? "", /ECONNREFUSED/);
    assert.equal(keeper.failures, authority.orders.length);
    moved.moveMs += 10 * dayMs;
    await keeper.turn(signal);
    await keeper.turn(signal);
    await (await open()).turn(signal);
    assert.deepEqual(mails, [`The certificate of ${name} is not renewed`]);
    authority.refusal = null;
    moved.moveMs += dayMs;
    await keeper.turn(signal);
    const renewed = await rowOf(name);
    assert.deepEqual([renewed.failures, renewed.failing_since], [0, null]);
    assert.equal(mails.length, 1);
  },
);

test(
  "when an authority says that there were too many, no other name is requested before its time",
  { skip: noOpenssl },
  async (t) => {
    const wanted = Array.from({ length: 20 }, (_, index) => `app-${index}.example.org`);
    const { authority, moved, open, signal } = await openBed(t, wanted);
    const refusal = { type: "rateLimited", retryAfterMs: 2 * hourMs };
    authority.refusal = new AuthorityError("too many certificates", refusal);
    const keeper = await open();
    await keeper.turn(signal);
    const first = authority.orders.length;
    assert.ok(first <= 4, String(first));
    moved.moveMs += hourMs;
    await keeper.turn(signal);
    assert.equal(authority.orders.length, first);
    authority.refusal = null;
    moved.moveMs += hourMs + 60_000;
    await keeper.turn(signal);
    assert.equal(heldBy(keeper).size, 20);
  },
);

test(
  "a platform that died in the middle of an order goes on with it and its key",
  { skip: noOpenssl },
  async (t) => {
    const name = "slipway.example.org";
    const { authority, open, signal, rowOf } = await openBed(t, [name]);
    authority.isHanging = true;
    const dying = new AbortController();
    const turn = (await open()).turn(AbortSignal.any([signal, dying.signal]));
    await until("the order is stored", async () => {
      const row = await rowOf(name).catch(() => null);
      return (row?.order_url ?? null) !== null;
    });
    dying.abort(new Error("killed"));
    await turn;
    authority.isHanging = false;
    const keeper = await open();
    await keeper.turn(signal);
    const [before, after] = authority.orders;
    assert.equal(before?.url, null);
    assert.equal(after?.url, `https://authority.test/order/${name}`);
    assert.equal(after.key, before?.key);
    assert.equal(heldBy(keeper).get(name), before?.key);
    assert.equal((await rowOf(name)).order_url, null);
  },
);

test(
  "a certificate of another name or key is not used, and a name that nobody needs is forgotten",
  { skip: noOpenssl },
  async (t) => {
    const name = "slipway.example.org";
    const { authority, moved, names, open, signal, rowOf, db } = await openBed(t, [name]);
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const other = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    const issue = authority.issue.bind(authority);
    authority.issue = (order) => issue({ ...order, key: other });
    const keeper = await open();
    await keeper.turn(signal);
    assert.match((await rowOf(name)).last_error ?? "", /another name or key/);
    assert.equal(heldBy(keeper).size, 0);
    authority.issue = issue;
    moved.moveMs += hourMs;
    await keeper.turn(signal);
    assert.equal(new X509Certificate((await rowOf(name)).chain ?? "").checkHost(name), name);
    names.wanted = [];
    moved.moveMs += 80 * dayMs;
    await keeper.turn(signal);
    assert.equal(heldBy(keeper).size, 1, "it is used until it ends");
    moved.moveMs += 11 * dayMs;
    await keeper.turn(signal);
    assert.equal(heldBy(keeper).size, 0);
    assert.equal((await db.selectFrom("certificates").selectAll().execute()).length, 0);
  },
);

test(
  "a certificate that nobody needs is not renewed, and can still be revoked",
  { skip: noOpenssl },
  async (t) => {
    const name = "shop.example.org";
    const { db, authority, moved, names, open, operate, signal, rowOf } = await openBed(t, [name]);
    const keeper = await open();
    await keeper.turn(signal);
    const { chain } = await rowOf(name);
    names.wanted = [];
    moved.moveMs += 70 * dayMs;
    await keeper.turn(signal);
    assert.equal(authority.orders.length, 1);
    const by = { actor: platformActor };
    await assert.rejects(operate(keeper).renew(name, by), /Nothing needs a certificate for shop/);
    await assert.rejects(operate(null).revoke(name, "superseded", by), /SLIPWAY_ACME_EMAIL/);
    await operate(keeper).revoke(name, "superseded", by);
    await keeper.turn(signal);
    await keeper.turn(signal);
    assert.deepEqual(authority.revoked, [chain]);
    assert.equal(authority.orders.length, 1);
    assert.equal(heldBy(keeper).size, 0);
    assert.deepEqual(await db.selectFrom("certificates").selectAll().execute(), []);
  },
);

test(
  "a certificate that is to be revoked while its renewal is under way is the one that is revoked",
  { skip: noOpenssl },
  async (t) => {
    const name = "slipway.example.org";
    const { authority, open, operate, signal, rowOf } = await openBed(t, [name]);
    const keeper = await open();
    await keeper.turn(signal);
    const { chain } = await rowOf(name);
    const by = { actor: platformActor };
    const issue = authority.issue.bind(authority);
    authority.issue = async (order) => {
      authority.issue = issue;
      const issued = await issue(order);
      await operate(keeper).revoke(name, "key_compromise", by);
      return issued;
    };
    await operate(keeper).renew(name, by);
    await keeper.turn(signal);
    await keeper.turn(signal);
    assert.deepEqual(authority.revoked, [chain]);
    const { chain: current, revocation, order_url: orderUrl } = await rowOf(name);
    assert.notEqual(current, chain);
    assert.deepEqual([revocation, orderUrl], [null, null]);
    const [, before, after] = authority.orders;
    assert.equal(after?.key, before?.key, "the order that had ended is fetched, not repeated");
  },
);

test(
  "new names of a project wait when it had too many in a week, also under names that are gone; others do not",
  { skip: noOpenssl },
  async (t) => {
    const named = (project: string, ...apps: readonly string[]) =>
      apps.map((app) => `${app}-${project}.apps.example.net`);
    const { authority, moved, names, open, operate, signal, rowOf, now } = await openBed(
      t,
      named("p-1", "a", "b"),
    );
    authority.refusal = new AuthorityError("the proof is invalid");
    const keeper = await open();
    await keeper.turn(signal);
    authority.refusal = null;
    const orders = (): number => authority.orders.length;
    assert.equal(orders(), 2, "failed orders count too");
    // The apps are deleted, and others made.
    moved.moveMs += hourMs;
    names.wanted = [...named("p-1", "c", "d", "e"), ...named("p-2", "a"), "slipway.example.org"];
    await keeper.turn(signal);
    await keeper.turn(signal);
    assert.equal(orders(), 5, "one of its names, and those of others");
    const { items } = await operate(keeper).list({ size: 200, after: null });
    const waiting = items.filter(({ lastError }) => lastError !== null);
    const own = waiting.filter(({ name }) => names.wanted.includes(name));
    assert.equal(own.length, 2);
    for (const { state, lastError, nextTryAt } of own) {
      assert.equal(state, "waiting");
      assert.match(
        lastError ?? "",
        /3 new names of the project p-1.*SLIPWAY_CERTIFICATES_PER_WEEK/,
      );
      assert.ok(nextTryAt.getTime() - now() > 6 * dayMs);
    }
    moved.moveMs += 7 * dayMs;
    await keeper.turn(signal);
    assert.equal(orders(), 7);
    assert.equal((await rowOf(own[0]?.name ?? "")).last_error, null);
  },
);
