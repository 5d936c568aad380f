// Rows of the walk over all routes for what people do with their own sign-in; see
// `audit-walk-rows.ts`.
import { randomUUID } from "node:crypto";
import { newMember, password, signIn, type Walked } from "./audit-walk-projects.ts";
import { appCode } from "./people-stage.ts";
import { SmallBrowser } from "./support/oidc-server.ts";
import { until } from "./support/until.ts";
import type {
  Walk,
  WalkCall,
  WalkCaller,
  WalkRefusal,
  WalkRow,
  WalkRows,
} from "./support/audit-walk.ts";

/** What a person is called and where their entries are, for the row that is walked. */
let person: Walked | undefined;

/**
 * What entries say about the person that the row has made, who is a member of the walk's project.
 */
const ofPerson = {
  resource: () => ({ type: "person", id: person?.id ?? null }),
  projectOf: (_answer: unknown, walk: Walk) => walk.projectId,
} satisfies Partial<WalkRow>;

async function walker(walk: Walk): Promise<Walked> {
  person = await newMember(walk, "member");
  return person;
}

/** What pages of the platform send. */
const samePage = { "sec-fetch-site": "same-origin" };

let visitor: Walked | undefined;

/**
 * One person for all rows that leave the password and its second step alone, with a session of its
 * own for each.
 */
async function visit(walk: Walk): Promise<Walked> {
  visitor ??= await newMember(walk, "member");
  person = await signIn(walk, visitor);
  return person;
}

/** Refused before anybody is known. */
const nobody = {
  caller: "nobody",
  unrecorded: "whoever shows nothing that is valid is nobody that is known",
} as const;

function refused(status: number, call: WalkCall = {}): () => WalkRefusal {
  return () => ({ ...call, ...nobody, status });
}

/** A person with two-factor sign-in on, and the code after the one that turned it on. */
async function withTwoFactor(
  walk: Walk,
): Promise<{ readonly caller: WalkCaller; readonly code: () => string }> {
  const { uri, caller } = await enrolling(walk);
  const { body } = await walk.call("confirmTwoFactor", { caller, body: { code: appCode(uri) } });
  return { caller: { token: body.accessToken, type: "person" }, code: () => appCode(uri, 1) };
}

async function enrolling(
  walk: Walk,
): Promise<{ readonly caller: Walked["caller"]; readonly uri: string }> {
  const { caller } = await walker(walk);
  const { body } = await walk.call("beginTwoFactor", { caller, body: { password } });
  return { caller, uri: body.uri };
}

async function resetToken(walk: Walk): Promise<string> {
  const { email } = await walker(walk);
  const { body } = await walk.call("createPasswordReset", { body: { email } });
  return String(body.url).split("/").at(-1) ?? "";
}

/** A device login that waits; its code for the person and the one for the device. */
async function deviceLogin(
  walk: Walk,
): Promise<{ readonly user_code: string; readonly device_code: string }> {
  const { body } = await walk.call("beginDeviceLogin", { caller: "nobody", body: {} });
  return body.deviceAuthResponsePayload;
}

async function wrongPassword(walk: Walk): Promise<WalkRefusal> {
  const { email } = await visit(walk);
  const body = { email, password: "not the walked one" };
  return { caller: "nobody", body, status: 401, reason: "The password was wrong." };
}

const sessions: WalkRows = {
  signIn: {
    ...ofPerson,
    actorType: "person",
    succeed: async (walk) => ({
      caller: "nobody",
      body: { email: (await visit(walk)).email, password },
    }),
    refuse: wrongPassword,
  },
  issueAccessToken: {
    succeed: async (walk) => ({
      caller: "nobody",
      body: { refresh_token: (await visit(walk)).refreshToken },
    }),
    refuse: refused(401, { body: { refresh_token: "never-made" } }),
    unrecorded: "the sign-in that began the session is recorded, not each of its access tokens",
  },
  signOut: {
    ...ofPerson,
    actorType: "person",
    succeed: async (walk) => ({
      caller: "nobody",
      body: { refresh_token: (await visit(walk)).refreshToken },
    }),
    refuse: refused(400, { body: { refresh_token: 5 } }),
  },
  endSession: {
    ...ofPerson,
    async succeed(walk) {
      const { caller } = await visit(walk);
      const { body } = await walk.call("getSession", { caller: (await visit(walk)).caller });
      return { caller, parts: { session_id: body.session.id } };
    },
  },
  endOtherSessions: {
    ...ofPerson,
    async succeed(walk) {
      await visit(walk);
      return { caller: (await visit(walk)).caller };
    },
  },
};

/**
 * A visit at the provider, up to where it sends the browser back to; `account`: whose address is
 * proven there.
 */
async function visitProvider({ platform, oidc }: Walk, email: string): Promise<WalkCall> {
  const { baseUrl } = platform.bootstrap;
  const browser = new SmallBrowser();
  oidc.account = { sub: email, email, emailVerified: true };
  const begun = await browser.send(`${baseUrl}/v2/auth/sign-in/provider`, {
    method: "POST",
    headers: { "content-type": "application/json", ...samePage },
    body: JSON.stringify({ provider: "oidc", returnTo: "/dashboard" }),
  });
  const { url } = (await begun.json()) as { url: string };
  const { location } = await browser.follow(url, `${baseUrl}/v2/auth/callback`);
  const cookie = [...browser.cookiesOf(baseUrl)]
    .map(([name, value]) => `${name}=${value}`)
    .join("; ");
  const query = new URL(location).search.slice(1);
  return { caller: "nobody", parts: { provider: "oidc" }, query, headers: { cookie } };
}

const providers: WalkRows = {
  signInWithProvider: {
    succeed: () => ({
      caller: "nobody",
      headers: samePage,
      body: { provider: "oidc", returnTo: "/dashboard" },
    }),
    refuse: refused(400, { headers: samePage, body: { provider: "nobody's" } }),
    unrecorded: "nobody has said yet who they are",
  },
  connectProvider: {
    succeed: async (walk) => ({
      caller: (await visit(walk)).caller,
      body: { provider: "oidc", password },
    }),
    unrecorded: "nothing is connected until the provider has sent the browser back",
  },
  disconnectProvider: {
    ...ofPerson,
    async succeed(walk) {
      const { id, caller } = await walker(walk);
      const account = { provider_id: "oidc", account_id: `${walk.oidc.issuer} ${id}` };
      await walk.db
        .insertInto("person_accounts")
        .values({ id: randomUUID(), person_id: id, ...account })
        .execute();
      return { caller, body: { provider: "oidc", password } };
    },
  },
  providerCallback: {
    ...ofPerson,
    actorType: "person",
    async succeed(walk) {
      const { id, email } = await walker(walk);
      await walk.db
        .updateTable("people")
        .set({ email_verified: true })
        .where("id", "=", id)
        .execute();
      return await visitProvider(walk, email);
    },
    refuse: () => ({
      caller: "nobody",
      parts: { provider: "oidc" },
      query: "state=never-made&code=none",
      status: 302,
      reason: "A sign-in with a provider was refused: expired.",
    }),
  },
};

const passwords: WalkRows = {
  changePassword: {
    ...ofPerson,
    succeed: async (walk) => ({
      caller: (await walker(walk)).caller,
      body: { currentPassword: password, newPassword: `${password} 2` },
    }),
  },
  createPasswordReset: {
    ...ofPerson,
    succeed: async (walk) => ({ body: { email: (await visit(walk)).email } }),
  },
  forgotPassword: {
    ...ofPerson,
    succeed: async (walk) => ({ caller: "nobody", body: { email: (await visit(walk)).email } }),
    refuse: refused(400, { body: { email: 5 } }),
  },
  resetPassword: {
    ...ofPerson,
    actorType: "person",
    succeed: async (walk) => ({
      caller: "nobody",
      body: { token: await resetToken(walk), password: `${password} 3` },
    }),
    refuse: refused(422, { body: { token: "never-made", password } }),
  },
  signUp: {
    succeed: () => ({ caller: "nobody", body: { email: "new-here@example.org", name: "New" } }),
    resource: async (_answer, _call, { db }) => {
      const made = db.selectFrom("people").select("id").where("email", "=", "new-here@example.org");
      const { id } = await until("they are a person", () => made.executeTakeFirst());
      return { type: "person", id };
    },
    // A member of nothing yet.
    projectOf: () => null,
    refuse: refused(400, { body: { email: 5, name: "New" } }),
  },
};

const twoFactor: WalkRows = {
  beginTwoFactor: {
    succeed: async (walk) => ({ caller: (await walker(walk)).caller, body: { password } }),
    refuse: refused(401, { body: { password } }),
    unrecorded: "nothing is on until a code was confirmed",
  },
  confirmTwoFactor: {
    ...ofPerson,
    async succeed(walk) {
      const { caller, uri } = await enrolling(walk);
      return { caller, body: { code: appCode(uri) } };
    },
  },
  signInTwoFactor: {
    ...ofPerson,
    actorType: "person",
    async succeed(walk) {
      const { code } = await withTwoFactor(walk);
      const first = await walk.call("signIn", {
        caller: "nobody",
        body: { email: person?.email, password },
      });
      return { caller: "nobody", body: { challenge: first.body.challenge, code: code() } };
    },
    refuse: refused(401, { body: { challenge: "never-made", code: "123456" } }),
  },
  createTwoFactorReset: {
    ...ofPerson,
    async succeed(walk) {
      await withTwoFactor(walk);
      return { body: { email: person?.email } };
    },
  },
  renewBackupCodes: {
    ...ofPerson,
    async succeed(walk) {
      const { caller, code } = await withTwoFactor(walk);
      return { caller, body: { password, code: code() } };
    },
  },
  disableTwoFactor: {
    ...ofPerson,
    async succeed(walk) {
      const { caller, code } = await withTwoFactor(walk);
      return { caller, body: { password, code: code() } };
    },
  },
};

const devices: WalkRows = {
  beginDeviceLogin: {
    succeed: () => ({ caller: "nobody", body: {} }),
    refuse: refused(400, { body: "[" }),
    unrecorded: "nobody has said yet who they are",
  },
  decideDeviceLogin: {
    ...ofPerson,
    async succeed(walk) {
      const { caller } = await visit(walk);
      const { user_code: code } = await deviceLogin(walk);
      return { caller, parts: { user_code: code }, body: { decision: "approve" } };
    },
  },
  endDeviceLogin: {
    ...ofPerson,
    actorType: "person",
    async succeed(walk) {
      const { caller } = await visit(walk);
      const { user_code: userCode, device_code: deviceCode } = await deviceLogin(walk);
      await walk.call("decideDeviceLogin", {
        caller,
        parts: { user_code: userCode },
        body: { decision: "approve" },
      });
      return { caller: "nobody", body: { device_code: deviceCode } };
    },
    refuse: refused(400, { body: { device_code: "never-made" } }),
  },
};

/** By operation id. */
export const signInRows: WalkRows = {
  ...sessions,
  ...providers,
  ...passwords,
  ...twoFactor,
  ...devices,
};
