// A management API with people: Ada, an admin of the first project and member of a second one, and
// what tests of signing in do again and again.
import { createHmac } from "node:crypto";
import { request } from "node:http";
import type { TestContext } from "node:test";
import { Secret } from "#lib/secret.ts";
import type { PeopleSettings } from "#people/people-settings.ts";
import type { ProjectId } from "#lib/ids.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { TrustedProxies } from "#lib/trusted-proxies.ts";
import { makePerson } from "#test/support/person.ts";
import { startMailReceiver, type MailReceiver } from "#test/support/mail-receiver.ts";
import {
  startManagementApi,
  type ApiAnswer,
  type ApiUnderTest,
  type Json,
} from "#test/support/management-api.ts";

export const adasPassword = "correct horse battery";
export const adasEmail = "ada@example.test";

export type PeopleStage = {
  readonly api: ApiUnderTest;
  readonly adaId: string;
  readonly secondProject: ProjectId;
  readonly mail: MailReceiver;
  /** Without a token. */
  post(path: string, body: Json, headers?: Record<string, string>): Promise<ApiAnswer>;
  /** Ada's, unless said otherwise; fails when it is refused. */
  signIn(body?: { email: string; password: string }): Promise<Json>;
  /** Whether the management API takes the token: by a route that looks at no session itself. */
  isTaken(token: string): Promise<boolean>;
  /** Entries of the audit log of a project, oldest first, as `action outcome actor-type`. */
  entries(projectId?: ProjectId): Promise<string[]>;
};

/** Starts it; everything is closed after the test. */
export async function startPeopleStage(
  t: TestContext,
  settings: Partial<PeopleSettings> & {
    readonly trustedProxies?: readonly string[];
    /** What people are told where the platform is. */
    readonly publicUrl?: string;
    readonly clock?: Clock;
  } = {},
): Promise<PeopleStage> {
  const mail = await startMailReceiver(t);
  const { trustedProxies = [], publicUrl = null, clock = systemClock, ...ways } = settings;
  const people = {
    signUp: "invited",
    oidc: null,
    github: null,
    ...ways,
    mail: { url: new Secret(mail.url), from: "Slipway <slipway@example.test>" },
  } as const;
  const api = await startManagementApi(t, {
    settings: { people, publicUrl, trustedProxies: new TrustedProxies(trustedProxies) },
    clock,
  });
  const adaId = await makePerson(api.db, { email: adasEmail, name: "Ada", password: adasPassword });
  const secondProject = await api.addProject("second");
  for (const [project_id, role] of [
    [api.projectId, "admin"] as const,
    [secondProject, "member"] as const,
  ]) {
    await api.db.insertInto("members").values({ project_id, person_id: adaId, role }).execute();
  }
  const post: PeopleStage["post"] = (path, body, headers = {}) =>
    api.call("POST", path, { body, token: null, headers });
  return {
    api,
    adaId,
    secondProject,
    mail,
    post,
    async signIn(body = { email: adasEmail, password: adasPassword }) {
      const answer = await post("/v2/auth/sign-in", body);
      if (answer.status !== 200)
        throw new Error(`signing in was answered ${answer.status}: ${answer.body.message}`);
      return answer.body;
    },
    async isTaken(token) {
      const { status } = await api.call("GET", `/v2/projects/${api.projectId}/apps`, { token });
      if (status !== 200 && status !== 401) throw new Error(`apps were answered ${status}`);
      return status === 200;
    },
    async entries(projectId = api.projectId) {
      const rows = await api.db
        .selectFrom("audit_log")
        .select(["action", "outcome", "actor_type"])
        .where("project_id", "=", projectId)
        .where("action", "like", "person.%")
        .orderBy("id")
        .execute();
      return rows.map((row) => `${row.action} ${row.outcome} ${row.actor_type}`);
    },
  };
}

/** A POST from another address of this machine. */
export function postFrom(
  address: string,
  url: string,
  body: Json,
): Promise<{ status: number; body: Json }> {
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      method: "POST",
      localAddress: address,
      headers: { "content-type": "application/json" },
    });
    sent.on("error", reject);
    sent.on("response", (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("end", () => {
        resolve({
          status: response.statusCode ?? 0,
          body: JSON.parse(Buffer.concat(parts).toString("utf8")),
        });
      });
    });
    sent.end(JSON.stringify(body));
  });
}

/**
 * What an authenticator app shows (RFC 6238): the code of now, or of `steps` of 30 seconds later.
 * The platform takes those of one step before and after its own, so only the codes of now and of
 * the next step are still good when a step ends on the way.
 */
export function appCode(uri: string, steps = 0): string {
  const secret = fromBase32(new URL(uri).searchParams.get("secret") ?? "");
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(systemClock.now() / 30_000) + steps));
  const hash = createHmac("sha1", secret).update(counter).digest();
  const offset = (hash.at(-1) ?? 0) & 0x0f;
  return String((hash.readUInt32BE(offset) & 0x7fff_ffff) % 1_000_000).padStart(6, "0");
}

function fromBase32(text: string): Buffer {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  const bits = text
    .split("")
    .map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, "0"))
    .join("");
  const bytes = bits.match(/.{8}/g) ?? [];
  return Buffer.from(bytes.map((byte) => Number.parseInt(byte, 2)));
}
