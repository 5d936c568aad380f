// The management API as HTTP: what each route answers, who may use it, and what is said to requests
// that fit nothing.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as answers from "@slipway/contract/answers.ts";
import { certificateRoutes } from "@slipway/contract/certificate-routes.ts";
import { containerList } from "@slipway/contract/container-answers.ts";
import { auditRoutes } from "@slipway/contract/audit-routes.ts";
import { deviceRoutes } from "@slipway/contract/device-routes.ts";
import { domainRoutes } from "@slipway/contract/domain-routes.ts";
import { execRoutes } from "@slipway/contract/exec-routes.ts";
import { gitRoutes } from "@slipway/contract/git-routes.ts";
import { repositoryRoutes } from "@slipway/contract/repository-routes.ts";
import { lifecycleRoutes } from "@slipway/contract/lifecycle-routes.ts";
import { passwordRoutes } from "@slipway/contract/password-routes.ts";
import { peopleRoutes } from "@slipway/contract/people-routes.ts";
import { planRoutes } from "@slipway/contract/plan-routes.ts";
import { projectRoutes } from "@slipway/contract/project-routes.ts";
import type { Route } from "@slipway/contract/route.ts";
import { routeIds, routes } from "@slipway/contract/routes.ts";
import { rollOutRoutes } from "@slipway/contract/roll-out-routes.ts";
import { tokenRoutes } from "@slipway/contract/token-routes.ts";
import { uploadRoutes } from "@slipway/contract/upload-routes.ts";
import { usageRoutes } from "@slipway/contract/usage-routes.ts";
import { volumeRoutes } from "@slipway/contract/volume-routes.ts";
import type { AppId, BuildId, ReplicaId } from "#lib/ids.ts";
import { newReleaseId } from "#lib/ids.ts";
import { toJson } from "#store/json.ts";
import { insertReleases } from "./support/release-rows.ts";
import { insertRun } from "./support/run-rows.ts";
import { insertDelivery } from "./support/webhook-rows.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";

type Created = { readonly appId: AppId; readonly buildId: BuildId };

async function create(api: ApiUnderTest, fields: object = {}): Promise<Created> {
  const body = { name: "my-app", gitRepo: "acme/shop", ...fields };
  const answer = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return answer.body;
}

/**
 * Routes with tests of their own. Who may not use a route is asked of all in
 * `api-access-matrix.test.ts`.
 */
const testedElsewhere: Readonly<Record<string, Route>> = {
  ...lifecycleRoutes,
  ...rollOutRoutes,
  ...projectRoutes,
  ...peopleRoutes,
  ...passwordRoutes,
  ...execRoutes,
  ...gitRoutes,
  ...domainRoutes,
  ...repositoryRoutes,
  ...uploadRoutes,
  ...volumeRoutes,
  ...deviceRoutes,
  ...tokenRoutes,
  ...planRoutes,
  ...usageRoutes,
  ...certificateRoutes,
  ...Object.fromEntries(Object.entries(auditRoutes).filter(([id]) => id !== "listAuditLog")),
};

/** A path of the table with its names filled in. */
function pathOf(
  route: Route,
  api: ApiUnderTest,
  created: Created & { readonly id?: string | undefined },
): string {
  return route.path
    .replace("{project_id}", api.projectId)
    .replace("{app_id}", created.appId)
    .replace("{build_id}", created.buildId)
    .replace("{release}", "1")
    .replace(/\{(?:run|delivery|endpoint|secret)_id\}/, created.id ?? "")
    .replace("{host}", "github.com")
    .replace("{code}", "WELCOME");
}

test("health is told only while the platform serves, readiness only while it takes all", async (t) => {
  const reasons: { serving: string | null; ready: string | null } = {
    serving: "It starts.",
    ready: "No database.",
  };
  const health = {
    notServing: () => reasons.serving,
    notReady: () => Promise.resolve(reasons.ready),
  };
  const api = await startManagementApi(t, { health });
  const told = async (): Promise<unknown[]> => {
    const live = await api.call("GET", "/healthz", { token: null });
    const ready = await api.call("GET", "/readyz");
    return [
      live.status,
      live.body.message ?? live.body.status,
      ready.status,
      ready.body.message ?? ready.body.status,
    ];
  };
  assert.deepEqual(await told(), [503, "It starts.", 503, "No database."]);
  reasons.serving = null;
  assert.deepEqual(await told(), [200, "ok", 503, "No database."]);
  reasons.ready = null;
  assert.deepEqual(await told(), [200, "ok", 200, "ok"]);
});

describe("the table of routes", () => {
  test("is what the API answers to whoever may ask: the described status and shape, with the headers of all answers", async (t) => {
    const api = await startManagementApi(t);
    const created = await create(api);
    const bodies: Readonly<Record<string, unknown>> = {
      createGitApp: { name: "other", gitRepo: "a/b" },
      updateApp: { cooldownPeriodSeconds: 5 },
      createBuild: {},
      setProjectSecrets: { KEY: "value" },
      setAppSecrets: { KEY: "value" },
      setCredential: { kind: "token", secret: "x" },
      setWebhookSchedule: { schedule: "short" },
      createCoupon: {
        code: "WELCOME",
        name: "Welcome",
        coupon_type: "percentage",
        percentage_rate: 10,
      },
      applyCoupon: { coupon_code: "WELCOME" },
      replayWebhookDeliveries: { from: "2026-01-01T00:00:00Z", to: "2026-01-02T00:00:00Z" },
    };
    const place = { db: api.db, projectId: api.projectId, appId: created.appId };
    const { id: deliveryId, endpointId } = await insertDelivery(place);
    const secret = await api.call("POST", `/v2/projects/${api.projectId}/webhook-secrets`);
    const ids: Readonly<Record<string, string>> = {
      getRun: await insertRun(place, { state: "running" }),
      getRunResult: await insertRun(place, {
        state: "success",
        result: { body: Buffer.from("text"), contentType: "text/plain" },
      }),
      cancelRun: await insertRun(place),
      redriveRun: await insertRun(place, { state: "failure" }),
      deleteWebhookSecret: secret.body.id,
      getWebhookDelivery: deliveryId,
      replayWebhookDelivery: deliveryId,
      pauseWebhookEndpoint: endpointId,
      resumeWebhookEndpoint: endpointId,
    };
    // Reading comes before what it reads is cancelled or removed.
    await insertReleases(api.db, created.appId);
    const order = [
      "setCredential",
      ...routeIds.filter(
        (id) => id !== "setCredential" && id !== "cancelBuild" && !(id in testedElsewhere),
      ),
      "cancelBuild",
    ] as const;
    const operator = await api.issue({ kind: "operator" });
    for (const id of order) {
      const route: Route = routes[id];
      const path = pathOf(route, api, { ...created, id: ids[id] });
      const body = bodies[id];
      let token: string | null = api.token;
      if (route.access === "public") token = null;
      else if (route.access === "platform.manage") token = operator;
      const answer = await api.call(route.method, path, { body, token });
      assert.equal(answer.status, route.status, `${id}: ${JSON.stringify(answer.body)}`);
      route.answer.parse(answer.body);
      assert.match(answer.headers.get("x-request-id") ?? "", /^[0-9a-f-]{36}$/, id);
      assert.equal(answer.headers.get("x-content-type-options"), "nosniff", id);
      assert.equal(answer.headers.get("cache-control"), "no-store", id);
      assert.match(answer.headers.get("content-security-policy") ?? "", /default-src 'none'/, id);
    }
  });
});

describe("apps", () => {
  test("are listed by name, shown by id or name with numbers as texts, and not found elsewhere", async (t) => {
    const api = await startManagementApi(t);
    const project = `/v2/projects/${api.projectId}`;
    await create(api, { name: "zebra" });
    const { appId, buildId } = await create(api, {
      name: "apple",
      cpu: 2.5,
      gitPath: "x",
      maxReplicaCount: 3,
    });
    const list = await api.call("GET", `${project}/apps`);
    answers.appList.parse(list.body);
    assert.deepEqual(
      list.body.map(({ name, status }: Record<string, string>) => [name, status]),
      [
        ["apple", "PENDING"],
        ["zebra", "PENDING"],
      ],
    );
    const detail = await api.call("GET", `${project}/apps/${appId}`);
    answers.appDetail.parse(detail.body);
    assert.equal(detail.body.cpu, "2.5");
    assert.equal(detail.body.maxReplicaCount, "3");
    assert.equal(detail.body.lastBuildStatus, "pending");
    assert.equal(detail.body.latestBuildId, buildId);
    assert.equal(detail.body.liveBuildId, null);
    assert.deepEqual(
      (await api.call("GET", `${project}/apps/apple`)).body,
      detail.body,
      "the name alone will do",
    );
    for (const name of [
      "pear",
      `${api.projectId}-pear`,
      "p-00000000-apple",
      "A",
      "%00",
      "apple%2F..",
      "x".repeat(300),
    ]) {
      assert.equal((await api.call("GET", `${project}/apps/${name}`)).status, 404, name);
      assert.equal((await api.call("GET", `${project}/apps/${name}/builds`)).status, 404, name);
      assert.equal((await api.call("GET", `${project}/apps/${name}/containers`)).status, 404, name);
      assert.equal((await api.call("GET", `${project}/apps/${name}/logs`)).status, 404, name);
    }
  });

  test("tell what their latest build and their calls wait for, or why the build failed", async (t) => {
    const waits = new Map<string, string>();
    const waitReason = (id: string): string | undefined => waits.get(`calls ${id}`);
    const api = await startManagementApi(t, {
      waitReason,
      buildWaitReason: (id) => waits.get(`build ${id}`),
    });
    const { appId, buildId } = await create(api);
    const reasons = async (): Promise<unknown[]> => {
      const { body } = await api.call("GET", `/v2/projects/${api.projectId}/apps/${appId}`);
      answers.appDetail.parse(body);
      const [listed] = answers.appList.parse(
        (await api.call("GET", `/v2/projects/${api.projectId}/apps`)).body,
      );
      assert.equal(listed?.waitReason, body.waitReason, "it is in the list of apps too");
      return [body.lastBuildReason, body.waitReason];
    };
    assert.deepEqual(await reasons(), [null, null]);
    const reason = "The app requests compute HOPPER_H100, but this platform has only CPU.";
    await api.db
      .updateTable("builds")
      .set({ status: "initializing", reason })
      .where("id", "=", buildId)
      .execute();
    assert.deepEqual(await reasons(), [reason, null]);
    waits.set(`build ${appId}`, "All cards are in use.");
    assert.deepEqual(await reasons(), [reason, "All cards are in use."]);
    waits.set(`calls ${appId}`, "A replica is starting.");
    assert.deepEqual(await reasons(), [reason, "A replica is starting."]);
  });

  test("tell what became of their builds", async (t) => {
    const api = await startManagementApi(t);
    const { appId, buildId } = await create(api);
    const statusOf = async (): Promise<string> =>
      (await api.call("GET", `/v2/projects/${api.projectId}/apps/${appId}`)).body.status;
    const set = async (
      status: "building" | "initializing" | "build_failure" | "cancelled",
    ): Promise<void> => {
      const ended_at = status === "build_failure" || status === "cancelled" ? new Date() : null;
      await api.db
        .updateTable("builds")
        .set({ status, ended_at })
        .where("id", "=", buildId)
        .execute();
    };
    const expected = {
      building: "BUILDING",
      initializing: "BUILDING",
      build_failure: "FAILED",
      cancelled: "FAILED",
    } as const;
    for (const status of ["building", "initializing", "build_failure", "cancelled"] as const) {
      await set(status);
      assert.equal(await statusOf(), expected[status]);
    }
    await addRelease(api, { appId, buildId });
    assert.equal(await statusOf(), "ACTIVE", "what is live stays live when a later build fails");
  });

  test("show their replicas that have not stopped", async (t) => {
    const api = await startManagementApi(t);
    const created = await create(api);
    const releaseId = await addRelease(api, created);
    const path = `/v2/projects/${api.projectId}/apps/${created.appId}/containers`;
    assert.deepEqual((await api.call("GET", path)).body, []);
    const states = ["starting", "ready", "draining", "stopped"] as const;
    for (const state of states) {
      const row = {
        id: `my-app-${state}` as ReplicaId,
        project_id: api.projectId,
        app_id: created.appId,
        build_id: created.buildId,
      };
      await api.db
        .insertInto("replicas")
        .values({
          ...row,
          release_id: releaseId,
          driver: "process",
          state,
          compute: "CPU",
          compute_tier: "interruptible",
          gpu_count: 0,
          cpu_cores: 1,
          memory_gb: 1,
          address: state === "starting" ? null : "127.0.0.1:4000",
          started_at: state === "starting" ? null : new Date(Date.now() - 5000),
          stopped_at: state === "stopped" ? new Date() : null,
        })
        .execute();
    }
    const { body } = await api.call("GET", path);
    containerList.parse(body);
    assert.deepEqual(
      body.map((one: Record<string, unknown>) => [
        one["containerState"],
        one["isTerminating"],
        one["containerIp"],
      ]),
      [
        ["PENDING", false, null],
        ["RUNNING", false, "127.0.0.1"],
        ["TERMINATING", true, "127.0.0.1"],
      ],
    );
    assert.ok(body[1].containerRunningTimeMs >= 5000);
  });
});

describe("builds", () => {
  test("are listed newest first, cancelled once, repeated, and recorded", async (t) => {
    const api = await startManagementApi(t);
    const { appId, buildId } = await create(api);
    const path = `/v2/projects/${api.projectId}/apps/${appId}/builds`;
    const cancelled = await api.call("DELETE", `${path}/${buildId}`, {
      headers: { "content-type": "application/json" },
    });
    assert.equal(cancelled.status, 200, JSON.stringify(cancelled.body));
    assert.equal(cancelled.body.status, "cancelled");
    const twice = await api.call("DELETE", `${path}/${buildId}`);
    assert.equal(twice.status, 409);
    const chosen = await api.call("POST", `${path}/${buildId}/rebuild`, {
      body: { branch: "other" },
    });
    assert.match(
      `${chosen.status} ${chosen.body.message}`,
      /^400 A rebuild is of the commit .* use POST …/,
    );
    const again = await api.call("POST", `${path}/${buildId}/rebuild`, { body: {} });
    assert.equal(again.status, 201, JSON.stringify(again.body));
    answers.receivedBuild.parse(again.body);
    const list = await api.call("GET", path);
    answers.buildList.parse(list.body);
    assert.deepEqual(
      list.body.map((build: Record<string, unknown>) => [
        build["number"],
        build["cause"],
        build["id"],
      ]),
      [
        [2, "rebuild", again.body.buildId],
        [1, "create", buildId],
      ],
    );
    const other = "00000000-0000-4000-8000-000000000000";
    for (const [method, suffix] of [
      ["GET", ""],
      ["DELETE", ""],
      ["POST", "/rebuild"],
      ["GET", "/logs"],
    ] as const) {
      assert.equal(
        (await api.call(method, `${path}/${other}${suffix}`)).status,
        404,
        `${method} ${suffix}`,
      );
      assert.equal(
        (await api.call(method, `${path}/nonsense${suffix}`)).status,
        404,
        `${method} ${suffix}`,
      );
    }
    const rows = await api.db
      .selectFrom("audit_log")
      .select(["action", "outcome"])
      .where("action", "like", "build.%")
      .where("outcome", "=", "success")
      .orderBy("id")
      .execute();
    assert.deepEqual(
      rows.map((row) => row.action),
      ["build.cancel", "build.rebuild"],
    );
  });

  test("of another app are not found under this one", async (t) => {
    const api = await startManagementApi(t);
    const one = await create(api, { name: "one" });
    const two = await create(api, { name: "two" });
    const path = `/v2/projects/${api.projectId}/apps/${one.appId}/builds/${two.buildId}`;
    for (const [method, suffix] of [
      ["GET", ""],
      ["DELETE", ""],
      ["POST", "/rebuild"],
      ["GET", "/logs"],
    ] as const) {
      assert.equal((await api.call(method, path + suffix)).status, 404);
    }
  });
});

describe("what clients of this interface rely on", () => {
  test("clients that send JSON headers with every request are served", async (t) => {
    const api = await startManagementApi(t);
    const { appId } = await create(api);
    const headers = {
      "content-type": "application/json",
      "x-source": "cli",
      "x-cli-version": "2.1.0",
      "x-client-os": "linux",
    };
    for (const path of [
      "/v2/projects",
      `/v2/projects/${api.projectId}/apps/${appId}`,
      `/v2/projects/${api.projectId}/secrets`,
    ]) {
      assert.equal((await api.call("GET", path, { headers })).status, 200, path);
    }
  });

  test("compute may be one text or a list, entrypoint of one element is split, null is absent", async (t) => {
    const api = await startManagementApi(t);
    await create(api, { name: "one", compute: "CPU", entrypoint: null, cpu: null });
    await create(api, {
      name: "two",
      compute: ["CPU"],
      runtime: "custom",
      entrypoint: ["uvicorn main:app --port 8000"],
    });
    const detail = await api.call("GET", `/v2/projects/${api.projectId}/apps/two`);
    assert.equal(detail.body.hardware, "CPU");
  });

  test("the public keys verify tokens, and hold no private part", async (t) => {
    const api = await startManagementApi(t);
    const { body } = await api.call("GET", "/.well-known/jwks.json", { token: null });
    assert.equal(body.keys.length, 1);
    for (const key of body.keys)
      for (const secret of ["d", "p", "q", "dp", "dq", "qi"]) assert.equal(secret in key, false);
  });
});

async function addRelease(
  api: ApiUnderTest,
  { appId, buildId }: Created,
): Promise<ReturnType<typeof newReleaseId>> {
  const releaseId = newReleaseId();
  const { settings } = await api.useCases.apps.get(api.projectId, appId);
  await api.db
    .insertInto("releases")
    .values({
      id: releaseId,
      project_id: api.projectId,
      app_id: appId,
      build_id: buildId,
      settings: toJson(settings),
      artifact: toJson({ kind: "x" }),
      number: 1,
      cause: "create",
      state: "live",
    })
    .execute();
  await api.db
    .updateTable("apps")
    .set({ live_release_id: releaseId })
    .where("id", "=", appId)
    .execute();
  return releaseId;
}
