// Changing the settings of an app over the wire: what each class of field starts, every refusal,
// what is kept and shown.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as answers from "@slipway/contract/answers.ts";
import { makeLive } from "#apps/release-store.ts";
import { beginRelease } from "#apps/roll-out-store.ts";
import { readNewestServed } from "#apps/settings-change-store.ts";
import { resolveSettings } from "#apps/settings.ts";
import { putRelease } from "#deploy/release-store.ts";
import { newReleaseId, type AppId, type BuildId, type ReleaseId } from "#lib/ids.ts";
import {
  startManagementApi,
  type ApiAnswer,
  type ApiUnderTest,
  type Json,
} from "./support/management-api.ts";

const body = { name: "my-app", gitRepo: "acme/shop", cooldownPeriodSeconds: 20, compute: "CPU" };
const file = {
  name: "slipway.toml",
  text: "[cerebrium.hardware]\nmemory = 3\n[cerebrium.scaling]\nmax_replicas = 6\n",
};
const commit = "a".repeat(40);

type Made = {
  readonly api: ApiUnderTest;
  readonly appId: AppId;
  readonly path: string;
  readonly releaseId: ReleaseId;
};

/** An app whose first build has ended well, as if its repository had `file`. */
async function liveApp(api: ApiUnderTest, fields: object = {}): Promise<Made> {
  const request = { ...body, ...fields };
  const created = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, {
    body: request,
  });
  assert.equal(created.status, 201, JSON.stringify(created.body));
  const { appId, buildId }: { appId: AppId; buildId: BuildId } = created.body;
  const resolved = resolveSettings({
    body: request,
    configToml: null,
    repositoryToml: file,
    providers: ["local"],
  });
  const releaseId = newReleaseId();
  await api.db.transaction().execute(async (tx) => {
    await tx
      .updateTable("builds")
      .set({
        status: "success",
        ended_at: new Date(),
        commit_sha: commit,
        commit_message: "First",
        branch: "main",
      })
      .where("id", "=", buildId)
      .execute();
    await putRelease(tx, { ...resolved, releaseId, buildId, artifact: { kind: "x" } });
    await makeLive(tx, { appId, releaseId, endOfOther: { state: "replaced", reason: "x" } });
  });
  return { api, appId, releaseId, path: `/v2/projects/${api.projectId}/apps/${appId}` };
}

function change({ api, path }: Made, fields: object, query = ""): Promise<ApiAnswer> {
  return api.call("PATCH", `${path}${query}`, { body: fields });
}

async function changed(made: Made, fields: object, query = ""): Promise<Json> {
  const { status, body: answer } = await change(made, fields, query);
  assert.equal(status, 200, JSON.stringify(answer));
  return answers.changedApp.parse(answer);
}

async function settings({ api, path }: Made): Promise<Json> {
  const { body: app } = await api.call("GET", path);
  return answers.appDetail.parse(app).settings;
}

const unfinished = async ({ api, appId }: Made): Promise<Json[]> =>
  await api.db
    .selectFrom("builds")
    .select(["number", "cause", "status", "commit_sha", "keeps_artifact", "request"])
    .where("app_id", "=", appId)
    .where("number", ">", 1)
    .orderBy("number")
    .execute();

describe("a change", () => {
  test("of what can change live starts nothing and is in effect for whoever reads the app", async (t) => {
    const made = await liveApp(await startManagementApi(t));
    const fields = {
      cooldownPeriodSeconds: 40,
      minReplicaCount: 2,
      responseGracePeriodSeconds: 60,
      gitBranch: "next",
    };
    const answer = await changed(made, fields);
    assert.deepEqual(
      [answer.change, answer.changed, answer.buildId, answer.release],
      ["live", Object.keys(fields).toSorted(), null, null],
    );
    const now = await settings(made);
    assert.deepEqual(now.cooldownPeriodSeconds, { value: 40, origin: "api" });
    assert.deepEqual(now.minReplicaCount, { value: 2, origin: "api" });
    assert.deepEqual(now.maxReplicaCount, { value: 6, origin: "repository" });
    assert.deepEqual(now.port, { value: 8000, origin: "default" });
    assert.deepEqual(now["dependencies.pip"], { value: {}, origin: "default" });
    const { body: app } = await made.api.call("GET", made.path);
    assert.deepEqual(
      [app.cooldownPeriodSeconds, app.minReplicaCount, app.gitBranch],
      ["40", "2", "next"],
      "where existing clients read it",
    );
    assert.deepEqual(await unfinished(made), []);
  });

  test("of what replicas are started with tries a release of the same artifact and commit", async (t) => {
    const made = await liveApp(await startManagementApi(t));
    const answer = await changed(made, { memory: "5.5", cooldownPeriodSeconds: 21 });
    assert.deepEqual([answer.change, answer.release], ["replica", 2]);
    assert.match(answer.message, /release 2 of the same files is tried/);
    const [build] = await unfinished(made);
    assert.deepEqual(
      [build.cause, build.status, build.commit_sha, build.keeps_artifact],
      ["settings", "pending", commit, true],
    );
    assert.equal(build.request.memory, 5.5, "a text is a number from then on");
    const release = await made.api.db
      .selectFrom("releases")
      .selectAll()
      .where("number", "=", 2)
      .executeTakeFirstOrThrow();
    assert.deepEqual(
      [release.state, release.artifact, release.commit_message],
      ["starting", { kind: "x" }, "First"],
    );
    assert.equal((release.settings as Json).memory, 5.5);
    const now = await settings(made);
    assert.deepEqual(
      now.memory,
      { value: 3, origin: "repository", pending: 5.5 },
      "not in effect yet",
    );
    assert.deepEqual(now.cooldownPeriodSeconds, { value: 21, origin: "api" });
  });

  test("of what is built starts a build of the commit that takes the calls", async (t) => {
    const made = await liveApp(await startManagementApi(t));
    const answer = await changed(made, { pythonVersion: "3.12", cpu: 1 });
    assert.deepEqual([answer.change, answer.release], ["build", null]);
    assert.match(answer.logUrl, new RegExp(`/builds/${answer.buildId}/logs$`));
    const [build] = await unfinished(made);
    assert.deepEqual(
      [build.cause, build.commit_sha, build.keeps_artifact],
      ["settings", commit, false],
    );
    assert.deepEqual([build.request.pythonVersion, build.request.cpu], ["3.12", 1]);
    await changed(made, { gitRepo: "acme/other" });
    assert.equal(
      (await unfinished(made))[1].commit_sha,
      null,
      "another repository has other commits",
    );
  });

  test("to null lets the files count again, and then the default", async (t) => {
    const made = await liveApp(await startManagementApi(t), { maxReplicaCount: 3, memory: 8 });
    const live = await changed(made, { maxReplicaCount: null, cooldownPeriodSeconds: null });
    assert.equal(live.change, "live");
    const now = await settings(made);
    assert.deepEqual(now.maxReplicaCount, { value: 6, origin: "repository" });
    assert.deepEqual(now.cooldownPeriodSeconds, { value: 10, origin: "default" });
    assert.equal((await changed(made, { memory: null })).change, "replica");
    assert.deepEqual((await settings(made)).memory, { value: 8, origin: "api", pending: 3 });
  });

  test("that changes no value starts nothing", async (t) => {
    const made = await liveApp(await startManagementApi(t));
    const same = await changed(made, {
      cooldownPeriodSeconds: 20,
      name: "my-app",
      compute: "CPU",
      dockerAuth: null,
    });
    assert.deepEqual([same.change, same.changed], [null, []]);
    // From another source, so that it stays; but the replicas have it.
    assert.equal((await changed(made, { memory: 3, pythonVersion: "3.10" })).change, "live");
    assert.deepEqual(await unfinished(made), []);
  });

  test("in a dry run only tells", async (t) => {
    const made = await liveApp(await startManagementApi(t));
    for (const [fields, kind] of [
      [{ minReplicaCount: 1 }, "live"],
      [{ cpu: 1 }, "replica"],
      [{ cpu: 1, useUv: true }, "build"],
      [{ config_toml: "[cerebrium.scaling]\ncooldown = 3" }, "build"],
    ] as const) {
      const answer = await changed(made, fields, "?dryRun=true");
      assert.deepEqual([answer.change, answer.isDryRun, answer.buildId], [kind, true, null]);
    }
    assert.equal((await change(made, { cpu: 0 }, "?dryRun=true")).status, 400);
    const row = await made.api.db.selectFrom("apps").select("request").executeTakeFirstOrThrow();
    assert.deepEqual(row.request, body);
    assert.deepEqual(await unfinished(made), []);
    const entries = await made.api.db
      .selectFrom("audit_log")
      .select("id")
      .where("action", "=", "app.update")
      .where("outcome", "=", "success")
      .execute();
    assert.equal(entries.length, 0);
  });

  test("while a build is under way takes effect after it; of several that wait the last one counts", async (t) => {
    const made = await liveApp(await startManagementApi(t));
    await changed(made, { useUv: true });
    assert.equal(
      (await changed(made, { memory: 3 })).change,
      "replica",
      "the build that runs may have another one",
    );
    assert.equal((await changed(made, { memory: 4 })).release, 3);
    assert.equal((await changed(made, { minReplicaCount: 1 })).change, "live");
    const builds = await unfinished(made);
    assert.deepEqual(
      builds.map(({ status, keeps_artifact }) => [status, keeps_artifact]),
      [
        ["pending", false],
        ["cancelled", true],
        ["pending", true],
      ],
    );
    await changed(made, { useUv: false });
    assert.deepEqual(
      (await unfinished(made)).map(({ status }) => status),
      ["cancelled", "cancelled", "cancelled", "pending"],
    );
    const ended = await made.api.db
      .selectFrom("releases")
      .select(["number", "state", "end_reason"])
      .where("number", "=", 3)
      .executeTakeFirst();
    assert.match(ended?.end_reason ?? "", /^Build 5 of later settings took its place/);
  });

  test("during a roll-out goes on from the release that is rolled out", async (t) => {
    const made = await liveApp(await startManagementApi(t));
    await changed(made, { memory: 4 });
    const { api, appId, releaseId } = made;
    const next = await api.db
      .selectFrom("releases")
      .select("id")
      .where("number", "=", 2)
      .executeTakeFirstOrThrow();
    await api.db.transaction().execute(async (tx) => {
      await tx
        .updateTable("builds")
        .set({ status: "success", ended_at: new Date() })
        .where("number", "=", 2)
        .execute();
      const rollOut = {
        appId,
        releaseId: next.id,
        liveReleaseId: releaseId,
        durationSeconds: 100,
        nowMs: 0,
      };
      await beginRelease(tx, rollOut);
    });
    assert.equal((await changed(made, { memory: 4, cpu: 1 })).change, "replica");
    const third = await api.db
      .selectFrom("releases")
      .select("settings")
      .where("number", "=", 3)
      .executeTakeFirstOrThrow();
    assert.deepEqual([(third.settings as Json).memory, (third.settings as Json).cpu], [4, 1]);
    assert.equal(await readNewestServed(api.db, appId), next.id);
  });

  test("of an app that no release serves yet is built at once", async (t) => {
    const api = await startManagementApi(t);
    const { body: created } = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, {
      body,
    });
    const made = {
      api,
      appId: created.appId,
      releaseId: newReleaseId(),
      path: `/v2/projects/${api.projectId}/apps/${created.appId}`,
    };
    const answer = await changed(made, { memory: 2 });
    assert.equal(answer.change, "build");
    assert.equal((await changed(made, { disableAuth: true })).change, "live");
    assert.deepEqual((await settings(made)).memory, { value: 2, origin: "api" });
    assert.equal((await api.call("GET", made.path)).body.disableAuth, true);
  });

  test("of registry credentials keeps them encrypted, and hidden in the audit log", async (t) => {
    const made = await liveApp(await startManagementApi(t));
    assert.equal((await changed(made, { dockerAuth: "reader:sesame" })).change, "build");
    const rows = [
      ...(await made.api.db.selectFrom("apps").selectAll().execute()),
      ...(await made.api.db.selectFrom("audit_log").selectAll().execute()),
    ];
    assert.doesNotMatch(JSON.stringify(rows), /sesame/);
    const entry = await made.api.db
      .selectFrom("audit_log")
      .select("changes")
      .where("action", "=", "app.update")
      .executeTakeFirstOrThrow();
    assert.deepEqual(entry.changes, { dockerAuth: { new: "[secret]" } });
    await changed(made, { dockerAuth: null });
    const app = await made.api.db
      .selectFrom("apps")
      .select("docker_auth_sealed")
      .executeTakeFirstOrThrow();
    assert.equal(app.docker_auth_sealed, null);
  });

  test("is recorded with what was before and is now", async (t) => {
    const made = await liveApp(await startManagementApi(t));
    await changed(made, { cooldownPeriodSeconds: 30, minReplicaCount: 1 });
    await change(made, { cooldownPeriodSeconds: -1 });
    const entries = await made.api.db
      .selectFrom("audit_log")
      .select(["outcome", "changes", "resource_id"])
      .where("action", "=", "app.update")
      .orderBy("id")
      .execute();
    assert.deepEqual(
      entries.map(({ outcome }) => outcome),
      ["success", "failure"],
    );
    assert.deepEqual(entries[0]?.changes, {
      cooldownPeriodSeconds: { old: 20, new: 30 },
      minReplicaCount: { new: 1 },
    });
    assert.equal(entries[0]?.resource_id, made.appId);
  });
});

describe("a change is refused", () => {
  test("with 400 and a message that names the field, as a create request is", async (t) => {
    const made = await liveApp(await startManagementApi(t));
    const cases: readonly (readonly [object, RegExp])[] = [
      [{}, /^The body has no fields/],
      [{ cpus: 1 }, /^"cpus" is not a field of this request; did you mean cpu\?$/],
      [{ nonsense: null }, /^"nonsense" is not a field/],
      [{ cpu: "many" }, /^cpu is "many", but must be a number from 0.25 to 192\.$/],
      [{ cpu: "0.1" }, /^cpu is 0.1, but must be/],
      [{ gpuCount: "1" }, /^gpuCount is "1", but must be a whole number/],
      [{ name: "other" }, /^name is "other", but the name of an app cannot be changed/],
      [{ name: null }, /^name is null, but/],
      [{ gitRepo: null }, /^gitRepo is null, but an app keeps a repository/],
      [{ gitRepo: "https://example.com/a/b" }, /^gitRepo is /],
      [
        { minReplicaCount: 7 },
        /^minReplicaCount is 7, but must not be above scaling\.max_replicas in slipway\.toml, which is 6\.$/,
      ],
      [{ scalingMetric: "cpu_utilization" }, /must be at least 1/],
      [{ compute: ["CPU", "ADA_L4"] }, /one family/],
      [{ config_toml: "a = " }, /^config_toml is not valid TOML/],
      [{ provider: "moon" }, /^provider is "moon"/],
    ];
    for (const [fields, expected] of cases) {
      const { status, body: answer } = await change(made, fields);
      assert.equal(status, 400, JSON.stringify(fields));
      assert.match(answers.faultAnswer.parse(answer).message, expected);
    }
    const row = await made.api.db.selectFrom("apps").select("request").executeTakeFirstOrThrow();
    assert.deepEqual(row.request, body);
  });

  test("with 409 for all but one of those that come at once; none is half done", async (t) => {
    const made = await liveApp(await startManagementApi(t));
    const all = await Promise.all(
      [31, 32, 33, 34].map((seconds) =>
        change(made, { cooldownPeriodSeconds: seconds, memory: seconds }),
      ),
    );
    const fine = all.filter(({ status }) => status === 200);
    const told = all.filter(({ status }) => status === 409);
    assert.equal(fine.length + told.length, 4);
    assert.ok(fine.length >= 1);
    for (const { body: answer } of told) assert.match(answer.message, /at the same time/);
    const app = await made.api.db.selectFrom("apps").select("request").executeTakeFirstOrThrow();
    const { cooldownPeriodSeconds, memory } = app.request as Json;
    assert.equal(cooldownPeriodSeconds, memory);
    const pending = (await unfinished(made)).filter(({ status }) => status === "pending");
    assert.deepEqual(
      pending.map(({ request }) => request.memory),
      [memory],
    );
  });

  test("with 404 for an app that is not there, is another project's or is being deleted", async (t) => {
    const made = await liveApp(await startManagementApi(t));
    const { api } = made;
    const other = await api.addProject("second");
    const token = await api.issue({ kind: "service_account", projectId: other });
    const fields = { cooldownPeriodSeconds: 1 };
    assert.equal(
      (await api.call("PATCH", `/v2/projects/${other}/apps/${made.appId}`, { body: fields, token }))
        .status,
      404,
    );
    assert.equal(
      (await api.call("PATCH", `/v2/projects/${api.projectId}/apps/nothing`, { body: fields }))
        .status,
      404,
    );
    await api.db.updateTable("apps").set({ deleting_at: new Date() }).execute();
    assert.equal((await change(made, fields)).status, 404);
  });

  test("with 429 beyond the deployments of a minute, but never a live change", async (t) => {
    const made = await liveApp(await startManagementApi(t, { settings: { deploysPerMinute: 2 } }));
    assert.equal((await change(made, { memory: 5 })).status, 200);
    assert.equal((await change(made, { memory: 6 })).status, 429);
    assert.deepEqual((await settings(made)).memory, { value: 3, origin: "repository", pending: 5 });
    assert.equal((await change(made, { disableAuth: true })).status, 200);
  });
});
