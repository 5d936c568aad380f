// How each route that the audit log has a word for is called, once so that it works and once so
// that it is refused; walked by `audit-walk.test.ts`, which fails for a route that has no row.
//
// To add a row: name it by the route's operation id. `succeed` makes what the call needs (through
// `walk.call`, or as rows of the database where no route makes it) and returns the call: ids of the
// path but the project's and the app's, query, body, and the caller where it is not the owner's
// service account (for routes of operators: the operator). That is enough for most: the refused
// call is then the same one with a token for calling apps (403), and the entries are expected to
// name the last id of the path. `resource` says otherwise, `refuse` makes another refused call,
// `projectOf` names another project. A route that changes something and is meant to leave no entry
// says why in `unrecorded`. Rows of an area that has many go into a file of their own beside this
// one, spread into the table at its end.
import type { Updateable } from "kysely";
import { newReleaseId, type ReleaseId } from "#lib/ids.ts";
import { toJson } from "#store/json.ts";
import type { Tables } from "#store/tables.ts";
import { settingsWith } from "#test/support/app-settings.ts";
import { signInRows } from "./audit-walk-sign-in.ts";
import { insertRollOut } from "./support/roll-out-rows.ts";
import { insertRun } from "./support/run-rows.ts";
import { projectRows } from "./audit-walk-projects.ts";
import { volumeRows } from "./audit-walk-volumes.ts";
import { tokenRows } from "./audit-walk-tokens.ts";
import type { Walk, WalkCall, WalkResource, WalkRows } from "./support/audit-walk.ts";
import { insertReleases } from "./support/release-rows.ts";
import { gitlabPush } from "./support/push-payloads.ts";
import { tarOf } from "./support/raw-tar.ts";
import { zipOf } from "./support/raw-zip.ts";
import { insertDelivery } from "./support/webhook-rows.ts";

/** Nobody listens there and it may not be called: what is sent there fails at once. */
const hook = "http://127.0.0.1:9/hook";
const laterMs = 3_600_000;
const host = { host: "git.example.org" };
const credential = { kind: "token", secret: "walked-secret" };

let couponsMade = 0;
let appsMade = 0;

async function newCoupon(walk: Walk): Promise<string> {
  const code = `WALK${++couponsMade}`;
  const body = {
    code,
    name: "Walk",
    coupon_type: "fixed_amount",
    amount_cents: 500,
    amount_currency: "USD",
  };
  const made = await walk.call("createCoupon", { body: { ...body, frequency: "once" } });
  if (made.status !== 201) throw new Error(JSON.stringify(made.body));
  return code;
}

async function deadRun(walk: Walk): Promise<WalkCall> {
  return {
    parts: {
      run_id: await insertRun(walk, {
        state: "failure",
        acceptedAt: new Date(Date.now() - 60_000),
      }),
    },
  };
}

/** A route that says why there is no such thing here. */
const refused = (call: WalkCall): NonNullable<WalkRows["deployPartnerApp"]> => ({
  succeed: () => call,
  status: 422,
  refuse: () => ({
    ...call,
    caller: "inference",
    status: 403,
    unrecorded: "it changes nothing for anybody",
  }),
  unrecorded: "it is always refused",
});

/** A route that answers and does nothing. */
const unchanging = (call: WalkCall): NonNullable<WalkRows["createRunApp"]> => ({
  succeed: () => call,
  refuse: () => ({
    ...call,
    caller: "inference",
    status: 403,
    unrecorded: "it changes nothing for anybody",
  }),
  unrecorded: "it changes nothing",
});

const tar = tarOf({ "main.py": "" }).toString("latin1");
const fileForm = `--walk\r\nContent-Disposition: form-data; name="file"; filename="walk.tar"\r\n\r\n${tar}\r\n--walk--\r\n`;

const appsAndBuilds: WalkRows = {
  createGitApp: {
    succeed: () => ({ body: { name: "made-by-walk", gitRepo: "acme/shop" } }),
    resource: ({ body }) => ({ type: "app", id: body.appId }),
  },
  deployUpload: {
    succeed: () => ({ body: { name: "uploaded-by-walk" } }),
    resource: ({ body }) => ({ type: "app", id: body.appId }),
  },
  downloadBuild: {
    async succeed(walk) {
      const { body } = await walk.call("deployUpload", { body: { name: "downloaded-by-walk" } });
      await fetch(body.uploadUrl, {
        method: "PUT",
        body: new Uint8Array(zipOf({ "main.py": "" })),
      });
      return { parts: { app_id: body.appId, build_id: body.buildId } };
    },
  },
  deployPartnerApp: refused({ body: { name: "partner-by-walk", runtime: "deepgram" } }),
  createRunApp: unchanging({ parts: { run_app: "run-by-walk" } }),
  makeRunEnvironment: unchanging({ parts: { run_app: "run-by-walk" }, body: {} }),
  runFile: {
    succeed: () => ({
      parts: { run_app: "run-by-walk" },
      query: "filename=main.py",
      body: fileForm,
      headers: { "content-type": "multipart/form-data; boundary=walk" },
    }),
    resource: (_answer, _call, { projectId }) => ({ type: "app", id: `${projectId}-run-by-walk` }),
  },
  putUpload: {
    async succeed(walk) {
      const { body } = await walk.call("deployUpload", { body: { name: "uploaded-by-walk" } });
      const key = String(body.uploadUrl).split("/").at(-1) ?? "";
      return { caller: "nobody", parts: { upload_key: key }, body: "a zip" };
    },
    refuse: () => ({
      caller: "nobody",
      parts: { upload_key: "nobody-s" },
      body: "a zip",
      status: 404,
      unrecorded: "whoever shows nothing that is valid is nobody that is known",
    }),
    unrecorded: "the deployment is recorded, and whoever knows the address sends its files",
  },
  createBuild: {
    succeed: () => ({ body: { branch: "main" } }),
    resource: ({ body }) => ({ type: "build", id: body.buildId }),
  },
  rollBack: {
    async succeed(walk) {
      await insertReleases(walk.db, walk.appId);
      return { body: { release: 1 } };
    },
  },
  resumeDeploys: {
    async succeed({ db, appId }) {
      const pause = { auto_deploy_paused_at: new Date(), auto_deploy_paused_reason: "x" };
      await db.updateTable("apps").set(pause).where("id", "=", appId).execute();
      return {};
    },
  },
  cancelBuild: { succeed: async (walk) => ({ parts: { build_id: await newBuild(walk) } }) },
  rebuild: { succeed: async (walk) => ({ parts: { build_id: await newBuild(walk) } }) },
  // Nothing of what it was made from is kept for a release that a row made.
  updateApp: {
    async succeed(walk) {
      await set(walk, { live_release_id: null });
      return { body: { cooldownPeriodSeconds: 31 } };
    },
  },
  stopApp: { succeed: (walk) => set(walk, { stopped_at: null }) },
  startApp: { succeed: (walk) => set(walk, { stopped_at: new Date() }) },
  deleteApp: { succeed: newApp },
  restartApp: {
    succeed: async (walk) =>
      set(walk, { stopped_at: null, live_release_id: await newRelease(walk) }),
  },
};

async function newApp(walk: Walk): Promise<WalkCall> {
  const made = await walk.call("createGitApp", {
    body: { name: `deleted-${++appsMade}`, gitRepo: "acme/shop" },
  });
  return { parts: { app_id: made.body.appId } };
}

/** Sets columns of the app that a call needs. */
async function set(walk: Walk, columns: Updateable<Tables["apps"]>): Promise<WalkCall> {
  await walk.db.updateTable("apps").set(columns).where("id", "=", walk.appId).execute();
  return {};
}

async function newRelease({ db, projectId, appId }: Walk): Promise<ReleaseId> {
  const build = await db
    .selectFrom("builds")
    .select("id")
    .where("app_id", "=", appId)
    .executeTakeFirstOrThrow();
  const id = newReleaseId();
  await db
    .insertInto("releases")
    .values({
      id,
      project_id: projectId,
      app_id: appId,
      build_id: build.id,
      number: 1,
      cause: "create",
      state: "live",
      settings: toJson(settingsWith({})),
      artifact: toJson({ kind: "x" }),
    })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  const row = await db
    .selectFrom("releases")
    .select("id")
    .where("app_id", "=", appId)
    .executeTakeFirstOrThrow();
  return row.id;
}

const rollOuts: WalkRows = {
  pauseRollOut: { succeed: withRollOut },
  resumeRollOut: {
    async succeed(walk) {
      await withRollOut(walk);
      await walk.call("pauseRollOut", {});
      return {};
    },
  },
  finishRollOut: { succeed: withRollOut },
  cancelRollOut: { succeed: withRollOut },
};

async function withRollOut(walk: Walk): Promise<WalkCall> {
  await insertRollOut(walk.db, walk.appId);
  return {};
}

async function newBuild(walk: Walk): Promise<string> {
  const { body } = await walk.call("listBuilds", {});
  const made = await walk.call("rebuild", { parts: { build_id: body[0].id } });
  return made.body.buildId;
}

const pushes: WalkRows = {
  makeGitHook: { succeed: () => ({}) },
  replayGitDelivery: {
    async succeed(walk) {
      await walk.call("receiveGitPush", await signedPush(walk));
      const { body } = await walk.call("listGitDeliveries", {});
      return { parts: { git_delivery_id: body.items[0].id } };
    },
  },
  receiveGitPush: {
    succeed: signedPush,
    refuse: () => ({
      caller: "nobody",
      parts: { hook_address: "nobody-s" },
      body: {},
      status: 404,
      unrecorded: "whoever shows nothing that is valid is nobody that is known",
    }),
    unrecorded: "the delivery is listed, and the build that it starts is recorded",
  },
};

const domain = { domain: "walked.example.org" };

const domains: WalkRows = {
  addDomain: {
    succeed: () => ({ body: { name: "shop.example.org" } }),
    resource: () => ({ type: "domain", id: "shop.example.org" }),
  },
  checkDomain: { succeed: addedDomain },
  removeDomain: { succeed: addedDomain },
};

async function addedDomain(walk: Walk): Promise<WalkCall> {
  await walk.call("addDomain", { body: { name: domain.domain } });
  return { parts: domain };
}

async function signedPush(walk: Walk): Promise<WalkCall> {
  const { body } = await walk.call("makeGitHook", {});
  const headers = { "x-gitlab-event": "Tag Push Hook", "x-gitlab-token": String(body.secret) };
  const parts = { hook_address: String(body.url).split("/").at(-1) ?? "" };
  return {
    caller: "nobody",
    parts,
    headers,
    body: gitlabPush({ kind: "tag_push", ref: "refs/tags/v1" }),
  };
}

const runs: WalkRows = {
  cancelRun: {
    async succeed(walk) {
      const runId = await insertRun(walk);
      // Not due for long, so that nobody begins with it.
      const due = new Date(Date.now() + laterMs);
      await walk.db.updateTable("runs").set({ due_at: due }).where("id", "=", runId).execute();
      return { parts: { run_id: runId } };
    },
  },
  redriveRun: { succeed: deadRun },
  redriveDeadRuns: {
    async succeed(walk) {
      await deadRun(walk);
      return {};
    },
  },
  purgeDeadRuns: {
    async succeed(walk) {
      await deadRun(walk);
      return {};
    },
  },
};

const webhooks: WalkRows = {
  listWebhookSecrets: { succeed: () => ({}) },
  createWebhookSecret: {
    succeed: () => ({}),
    resource: ({ body }) => ({ type: "webhook_secret", id: body.id }),
  },
  deleteWebhookSecret: {
    async succeed(walk) {
      const { body } = await walk.call("createWebhookSecret", {});
      return { parts: { secret_id: body.id } };
    },
  },
  replayWebhookDelivery: {
    succeed: async (walk) => ({
      parts: { delivery_id: (await insertDelivery(walk, { url: hook })).id },
    }),
  },
  replayWebhookDeliveries: {
    async succeed(walk) {
      await insertDelivery(walk, { url: hook });
      return {
        body: { from: "2020-01-01T00:00:00Z", to: new Date(Date.now() + laterMs).toISOString() },
      };
    },
  },
  pauseWebhookEndpoint: {
    succeed: async (walk) => ({ parts: { endpoint_id: await newEndpoint(walk, "pause") } }),
  },
  resumeWebhookEndpoint: {
    async succeed(walk) {
      const parts = { endpoint_id: await newEndpoint(walk, "resume") };
      await walk.call("pauseWebhookEndpoint", { parts });
      return { parts };
    },
  },
  setWebhookSchedule: { succeed: () => ({ body: { schedule: "short" } }) },
};

async function newEndpoint(walk: Walk, path: string): Promise<string> {
  return (await insertDelivery(walk, { url: `${hook}/${path}` })).endpointId;
}

const secretsAndCredentials: WalkRows = {
  getProjectSecrets: { succeed: () => ({}) },
  setProjectSecrets: { succeed: () => ({ body: { WALKED: "walked-secret" } }) },
  getAppSecrets: { succeed: () => ({}) },
  setAppSecrets: { succeed: () => ({ body: { WALKED: "walked-secret" } }) },
  // Nothing of them is acted on one by one.
  listCredentials: { succeed: () => ({}), resource: () => ({ type: null, id: null }) },
  getCredential: {
    async succeed(walk) {
      await walk.call("setCredential", { parts: host, body: credential });
      return { parts: host };
    },
  },
  setCredential: { succeed: () => ({ parts: host, body: credential }) },
  deleteCredential: { succeed: () => ({ parts: host }) },
};

const coupons: WalkRows = {
  createCoupon: {
    succeed: () => ({
      body: {
        code: "WALK0",
        name: "Walk",
        coupon_type: "percentage",
        percentage_rate: 10,
        frequency: "once",
      },
    }),
    resource: (_answer, _call, walk) => couponOf(walk, "WALK0"),
  },
  applyCoupon: {
    succeed: async (walk) => ({ body: { coupon_code: await newCoupon(walk) } }),
    resource: (_answer, { body }, walk) =>
      couponOf(walk, (body as { coupon_code: string }).coupon_code),
  },
  endCoupon: {
    succeed: async (walk) => ({ parts: { code: await newCoupon(walk) } }),
    resource: (_answer, { parts }, walk) => couponOf(walk, parts?.["code"] ?? ""),
  },
};

/** The name of the platform that walks the routes of certificates. */
export const walkCertificate = "walk.example.org";

/** A certificate as a row has it; the platform's authority does not answer. */
async function certificate(walk: Walk): Promise<WalkCall> {
  const name = walkCertificate;
  const now = new Date();
  const held = { chain: "walked", key_sealed: "", begins_at: now, ends_at: now };
  await walk.db
    .insertInto("certificates")
    .values({ name, next_try_at: now, ...held })
    .onConflict((conflict) => conflict.column("name").doUpdateSet(held))
    .execute();
  return { parts: { certificate: name } };
}

const certificates: WalkRows = {
  renewCertificate: { succeed: certificate },
  revokeCertificate: {
    succeed: async (walk) => ({ ...(await certificate(walk)), body: { reason: "superseded" } }),
  },
};

const plansAndBudgets: WalkRows = {
  updateOperatorProject: { succeed: () => ({ body: { plan: "self-hosted" } }) },
  setProjectBudget: {
    succeed: () => ({
      body: { amount_cents: 1000, webhook_url: "https://receiver.invalid/walked-secret" },
    }),
  },
  deleteProjectBudget: { succeed: () => ({}) },
  setAppBudget: { succeed: () => ({ body: { amount_cents: 1000 } }) },
  deleteAppBudget: { succeed: () => ({}) },
};

/** Codes may be given out again; entries name the coupon itself. */
async function couponOf({ db }: Walk, code: string): Promise<WalkResource> {
  const row = await db
    .selectFrom("coupons")
    .select("id")
    .where("code", "=", code)
    .executeTakeFirstOrThrow();
  return { type: "coupon", id: row.id };
}

const auditLog: WalkRows = {
  // The owner's own reading leaves none.
  listAuditLog: { succeed: () => ({ caller: "operator" }) },
  exportAuditLog: { succeed: () => ({ query: "format=csv" }) },
  setAuditForwarding: {
    succeed: () => ({ body: { url: "https://receiver.invalid/hook?key=walked-secret" } }),
  },
  deleteAuditForwarding: { succeed: () => ({}) },
};

/** All rows by operation id. */
export const walkRows: WalkRows = {
  ...appsAndBuilds,
  ...domains,
  ...pushes,
  ...rollOuts,
  ...runs,
  ...webhooks,
  ...secretsAndCredentials,
  ...coupons,
  ...certificates,
  ...plansAndBudgets,
  ...auditLog,
  ...projectRows,
  ...signInRows,
  ...tokenRows,
  ...volumeRows,
};
