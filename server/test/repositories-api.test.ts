// Looking into repositories before there is an app, over the API: what a real git host says of
// branches, and what becomes of addresses that are not allowed or cannot be read.
import assert from "node:assert/strict";
import type { IncomingHttpHeaders } from "node:http";
import { test, type TestContext } from "node:test";
import "./support/leftovers.ts";
import { startGitServer, type GitServer, type GitServerOptions } from "./support/git-server.ts";
import type { Config } from "#config.ts";
import { startManagementApi, type ApiAnswer, type ApiUnderTest } from "./support/management-api.ts";

type Stage = {
  readonly api: ApiUnderTest;
  readonly git: GitServer;
  readonly ask: (
    path: string,
    query: Readonly<Record<string, string>>,
    token?: string,
  ) => Promise<ApiAnswer>;
};

async function openStage(
  t: TestContext,
  options: GitServerOptions = {},
  settings: Partial<Config> = {},
): Promise<Stage> {
  const git = await startGitServer(t, options);
  const gitHosts = { defaultUrl: git.urlTemplate, otherUrls: [] };
  const api = await startManagementApi(t, { settings: { gitHosts, ...settings } });
  const ask: Stage["ask"] = (path, query, token = api.token) =>
    api.call(
      "GET",
      `/v2/projects/${api.projectId}/git-repositories${path}?${new URLSearchParams(query)}`,
      { token },
    );
  return { api, git, ask };
}

/** The API of a git host: by path, what it answers to the token `s3cret-t0ken`. */
function apiOf(
  answers: Readonly<
    Record<string, (query: URLSearchParams, headers: IncomingHttpHeaders) => unknown>
  >,
): NonNullable<GitServerOptions["intercept"]> {
  return ({ url = "", method, headers }, response) => {
    const { pathname, searchParams } = new URL(url, "http://host.invalid");
    if (!pathname.startsWith("/api/")) return false;
    const isKnown = /^(?:token |Bearer )?s3cret-t0ken$/.test(
      String(headers["private-token"] ?? headers.authorization ?? ""),
    );
    const answer = method === "GET" ? answers[pathname] : undefined;
    let status = 404;
    if (answer !== undefined) status = isKnown ? 200 : 401;
    response.writeHead(status, { "content-type": "application/json" });
    response.end(
      JSON.stringify(status === 200 ? answer?.(searchParams, headers) : { message: "<b>no</b>" }),
    );
    return true;
  };
}

async function putToken({ api, git }: Stage, secret: string): Promise<void> {
  const path = `/v2/projects/${api.projectId}/git-credentials/${git.host}`;
  assert.equal((await api.call("PUT", path, { body: { kind: "token", secret } })).status, 200);
}

const hostKinds: Readonly<Record<string, Parameters<typeof apiOf>[0]>> = {
  Gitea: {
    "/api/v1/repos/search": (query) => ({
      ok: true,
      data: [
        { full_name: "acme/shop" },
        { full_name: "acme/Other" },
        { full_name: "../x" },
        { full_name: 7 },
        null,
      ].filter((one) =>
        String(one?.full_name)
          .toLowerCase()
          .includes(query.get("q")?.toLowerCase() ?? ""),
      ),
    }),
  },
  GitLab: {
    "/api/v4/projects": (query) =>
      [
        { path_with_namespace: "acme/team/shop" },
        { path_with_namespace: "acme/team/Other" },
      ].filter(
        (one) =>
          query.get("membership") === "true" &&
          one.path_with_namespace.toLowerCase().includes(query.get("search")?.toLowerCase() ?? ""),
      ),
  },
  GitHub: {
    "/api/v3/user/repos": (query) =>
      query.get("page") === "3"
        ? [{ full_name: "acme/Other" }]
        : Array.from({ length: 100 }, (_one, at) => ({
            full_name: `acme/shop-${query.get("page")}-${at}`,
          })),
  },
};
const expected: Readonly<
  Record<string, { all: readonly [string, number]; hasMore: boolean; other: string }>
> = {
  Gitea: { all: ["acme/shop", 2], hasMore: false, other: "acme/Other" },
  GitLab: { all: ["acme/team/shop", 2], hasMore: false, other: "acme/team/Other" },
  GitHub: { all: ["acme/shop-1-0", 100], hasMore: true, other: "acme/Other" },
};

for (const [kind, answers] of Object.entries(hostKinds)) {
  test(`repositories that a token can see on a host with ${kind} are listed and searched`, async (t) => {
    const stage = await openStage(t, { intercept: apiOf(answers) });
    const { api, git, ask } = stage;
    const { all, hasMore, other } = expected[kind] ?? assert.fail();
    assert.deepEqual((await ask("", {})).body, { items: [], hosts: [] });
    assert.deepEqual(git.requests, []);
    await putToken(stage, "s3cret-t0ken");
    const body = { name: "used", gitRepo: "own/used" };
    assert.equal(
      (await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body })).status,
      201,
    );
    const listed = (await ask("", {})).body;
    assert.deepEqual(
      [listed.items[0], listed.items[1], listed.items.length],
      ["own/used", all[0], all[1] + 1],
    );
    assert.deepEqual(listed.hosts, [{ host: git.host, hasMore, problem: null }]);
    assert.deepEqual((await ask("", { search: "OTHER" })).body.items, [other]);
    await putToken(stage, "old-t0ken");
    const refused = (await ask("", {})).body;
    assert.deepEqual(refused, {
      items: ["own/used"],
      hosts: [
        {
          host: git.host,
          hasMore: false,
          problem: "It answered with status 401. Check the token of the project for this host.",
        },
      ],
    });
  });
}

test("a host whose API is another one, or is not reached, is named, and the rest is listed", async (t) => {
  const other = await openStage(t, {
    intercept: apiOf({ "/api/v1/repos/search": () => ({ data: "none" }) }),
  });
  await putToken(other, "s3cret-t0ken");
  const problem =
    "It has none of the APIs of GitHub, GitLab, Gitea and Forgejo. Type the address of the repository instead.";
  assert.deepEqual((await other.ask("", {})).body.hosts, [
    { host: other.git.host, hasMore: false, problem },
  ]);
  const away = await openStage(t, {
    intercept: (request) => {
      request.socket.destroy();
      return true;
    },
  });
  await putToken(away, "s3cret-t0ken");
  const [host] = (await away.ask("", {})).body.hosts;
  assert.match(host.problem, /^It cannot be reached: /);
  assert.doesNotMatch(JSON.stringify(host), /s3cret/);
});

test("the API of a host is not called at an address that the platform may not call", async (t) => {
  const stage = await openStage(
    t,
    { intercept: apiOf(hostKinds["GitLab"] ?? {}) },
    { webhookAllow: [] },
  );
  await putToken(stage, "s3cret-t0ken");
  const [host] = (await stage.ask("", {})).body.hosts;
  assert.match(host.problem, /may not be called: it is a loopback address/);
  assert.deepEqual(stage.git.requests, []);
});

test("branches are listed with the default one first, and a limit", async (t) => {
  const { git, ask } = await openStage(t);
  await git.createRepo("acme", "app", { "main.py": "" }, "trunk");
  await git.push("acme", "app", { "main.py": "" }, "a/feature");
  const answer = await ask("/branches", { gitRepo: `http://${git.host}/acme/app.git` });
  assert.deepEqual(
    [answer.status, answer.body],
    [
      200,
      {
        gitRepo: "acme/app",
        defaultBranch: "trunk",
        branches: ["trunk", "a/feature"],
        hasMore: false,
      },
    ],
  );
  const commit = await git.git("acme", "app", ["rev-parse", "trunk"]);
  const refs = Array.from(
    { length: 600 },
    (_one, at) => `create refs/heads/b${at} ${commit}\n`,
  ).join("");
  await git.git("acme", "app", ["update-ref", "--stdin"], refs);
  const many = (await ask("/branches", { gitRepo: "acme/app" })).body;
  assert.deepEqual([many.branches.length, many.branches[0], many.hasMore], [500, "trunk", true]);
});

for (const isFiltered of [true, false]) {
  const host = isFiltered ? "leaves files out" : "sends all files";
  test(`folders and settings are read from a host that ${host}, and checked as a build does`, async (t) => {
    const { git, ask } = await openStage(t);
    const app = `[cerebrium.hardware]
cpu = 500
memory = 4.5
[cerebrium.scaling]
min_replicas = 3
max_replicas = 2
[cerebrium.dependencies.pip]
numpy = "latest"
[cerebrium.hardwear]
x = 1
`;
    await git.createRepo("acme", "app", {
      "main.py": "",
      Dockerfile: "FROM debian\n",
      "apps/one/slipway.toml": app,
      "big.bin": Buffer.alloc(300_000),
    });
    await git.push("acme", "app", { "apps/two/cerebrium.toml": "[cerebrium" }, "dev");
    await git.git("acme", "app", ["config", "uploadpack.allowFilter", String(isFiltered)]);
    const one = await ask("/settings", { gitRepo: "acme/app", gitPath: "apps/one/" });
    assert.equal(one.status, 200, JSON.stringify(one.body));
    assert.deepEqual(one.body, {
      folders: ["apps/one"],
      hasMore: false,
      file: {
        name: "slipway.toml",
        settings: [
          {
            name: "cpu",
            value: 500,
            problem: "hardware.cpu in slipway.toml is 500, but must be a number from 0.25 to 192.",
          },
          { name: "memory", value: 4.5, problem: null },
          { name: "minReplicaCount", value: 3, problem: null },
          { name: "maxReplicaCount", value: 2, problem: null },
          { name: "dependencies.pip", value: { numpy: "latest" }, problem: null },
        ],
        warnings: ["hardwear in slipway.toml is unknown and has no effect; did you mean hardware?"],
        problem: null,
      },
      hasDockerfile: false,
    });
    const broken = await ask("/settings", {
      gitRepo: "acme/app",
      gitBranch: "dev",
      gitPath: "apps/two",
    });
    assert.deepEqual(broken.body.folders, ["apps/two"]);
    assert.deepEqual(broken.body.file.settings, []);
    assert.match(broken.body.file.problem, /^cerebrium\.toml is not valid TOML at line 1/);
    const root = await ask("/settings", { gitRepo: "acme/app" });
    assert.deepEqual([root.status, root.body.file, root.body.hasDockerfile], [200, null, true]);
    await git.push("acme", "app", { "apps/one/slipway.toml": app.replace("500", "1") });
    const contradiction = await ask("/settings", { gitRepo: "acme/app", gitPath: "apps/one" });
    assert.match(
      contradiction.body.file.problem,
      /^scaling\.min_replicas in slipway\.toml is 3, but must not be above/,
    );
  });
}

test("a settings file is read as a build does: no link, no folder that is not there, and what cannot be read is named", async (t) => {
  const { git, ask } = await openStage(t);
  await git.createRepo("acme", "app", {
    "main.py": "",
    "slipway.toml": Buffer.alloc(1_000_001, "#"),
    "cerebrium.toml": "[cerebrium.hardware]\ncpu = 2\n",
    "linked/slipway.toml": { link: "/etc/passwd" },
  });
  const root = await ask("/settings", { gitRepo: "acme/app" });
  const tooLarge =
    "slipway.toml is larger than 1 MB, the maximum for such a file. Make it smaller.";
  assert.deepEqual(root.body.file, {
    name: "slipway.toml",
    settings: [],
    warnings: [],
    problem: tooLarge,
  });
  const linked = await ask("/settings", { gitRepo: "acme/app", gitPath: "linked" });
  assert.deepEqual([linked.body.folders, linked.body.file], [[""], null]);
  const text = "[cerebrium.hardware]\ncpu = 2\n";
  const given: readonly (readonly [Buffer, unknown, string | null])[] = [
    [Buffer.from(`\ufeff${text}`, "utf16le"), 2, null],
    [Buffer.from(`${text}# caf\xe9\n`, "latin1"), 2, null],
    [
      Buffer.from(`${text}x = 'caf\xe9'\n`, "latin1"),
      undefined,
      "line 3 has the byte 0xe9. Save it as UTF-8.",
    ],
  ];
  for (const [toml, cpu, problem] of given) {
    await git.push("acme", "app", { "encoded/slipway.toml": toml });
    const { file } = (await ask("/settings", { gitRepo: "acme/app", gitPath: "encoded" })).body;
    const why = problem === null ? null : `slipway.toml is not UTF-8: ${problem}`;
    assert.deepEqual([file.settings[0]?.value, file.problem], [cpu, why]);
  }
  for (const gitPath of ["nowhere", "main.py", "--full-name"]) {
    const answer = await ask("/settings", { gitRepo: "acme/app", gitPath });
    const why = `gitPath is ${JSON.stringify(gitPath)}, but acme/app has no such folder on main. Folders with a settings file: the root, encoded.`;
    assert.deepEqual([answer.status, answer.body.message], [422, why]);
  }
  const branch = await ask("/settings", { gitRepo: "acme/app", gitBranch: "gone" });
  const what = 'gitBranch is "gone", but acme/app has no branch, tag or commit of that name.';
  assert.deepEqual([branch.status, branch.body.message], [422, what]);
  const head = await git.git("acme", "app", ["rev-parse", "main"]);
  await git.git("acme", "app", ["tag", "--annotate", "--message", "One", "v1", head]);
  for (const gitBranch of ["v1", head, head.slice(0, 9)])
    assert.equal(
      (await ask("/settings", { gitRepo: "acme/app", gitBranch })).body.file.name,
      "slipway.toml",
    );
  const unknown = await ask("/settings", { gitRepo: "acme/app", gitBranch: "0123456789" });
  assert.match(
    unknown.body.message,
    /^gitRepo cannot be read: No commit .* begins with 0123456789\. Has it been pushed\?/,
  );
  assert.equal((await ask("/settings", { gitRepo: "acme/app", gitBranch: "--all" })).status, 400);
  assert.equal((await ask("/settings", { gitRepo: "acme/app", gitPath: "../x" })).status, 400);
});

test("a private repository is read with the credential of the project, which no answer contains", async (t) => {
  const { api, git, ask } = await openStage(t, { credentials: "x-access-token:s3cret-t0ken" });
  await git.createRepo("acme", "app", { "main.py": "" });
  const refused = await ask("/branches", { gitRepo: "acme/app" });
  assert.equal(refused.status, 422);
  const why = new RegExp(
    `^gitRepo cannot be read: acme/app on ${git.host} does not exist, or it is private: .* Correct gitRepo, or add a credential \\(PUT …/git-credentials/\\{host\\}\\) and try again\\.$`,
  );
  assert.match(refused.body.message, why);
  const put = (secret: string): Promise<ApiAnswer> =>
    api.call("PUT", `/v2/projects/${api.projectId}/git-credentials/${git.host}`, {
      body: { kind: "token", secret },
    });
  await put("wr0ng-t0ken");
  const wrong = await ask("/branches", { gitRepo: "acme/app" });
  assert.match(wrong.body.message, /is not allowed to read it/);
  assert.doesNotMatch(JSON.stringify(wrong.body), /wr0ng-t0ken/);
  await put("s3cret-t0ken");
  assert.deepEqual((await ask("/branches", { gitRepo: "acme/app" })).body.branches, ["main"]);
});

test("nothing is asked of hosts that builds may not fetch from, and nobody asks who may not create apps", async (t) => {
  const { api, git, ask } = await openStage(t);
  const foreign = await ask("/branches", { gitRepo: "http://169.254.169.254/latest/meta-data" });
  assert.deepEqual(
    [foreign.status, foreign.body.message],
    [400, `gitRepo is on "169.254.169.254", but must be on ${git.host} here (SLIPWAY_GIT_HOSTS).`],
  );
  const withKey = await ask("/branches", { gitRepo: `http://me:hunter2@${git.host}/acme/app` });
  assert.equal(withKey.status, 400);
  assert.doesNotMatch(JSON.stringify(withKey.body), /hunter2/);
  for (const gitRepo of [
    "--upload-pack=touch /tmp/x",
    "../../etc",
    "ext::sh -c id",
    "file:///etc/passwd",
  ]) {
    const answer = await ask("/branches", { gitRepo });
    assert.deepEqual(
      [answer.status, answer.body.message.startsWith("gitRepo ")],
      [400, true],
      gitRepo,
    );
  }
  const missing = await ask("/branches", {});
  assert.deepEqual(
    [missing.status, missing.body.message.startsWith("gitRepo is missing")],
    [400, true],
  );
  assert.deepEqual(git.requests, []);
  await git.createRepo("acme", "empty", { "main.py": "" });
  await git.git("acme", "empty", ["update-ref", "-d", "refs/heads/main"]);
  const empty = await ask("/branches", { gitRepo: "acme/empty" });
  assert.deepEqual(
    [empty.status, empty.body.message],
    [422, "gitRepo is acme/empty, which has no branches yet: push a commit to it first."],
  );
  const billing = await api.issue({ kind: "service_account", role: "billing" });
  assert.equal((await ask("/branches", { gitRepo: "acme/app" }, billing)).status, 403);
});

test("a host that does not answer is said to be unreachable, by its name", async (t) => {
  const { git, ask } = await openStage(t, {
    intercept: (request) => {
      request.socket.destroy();
      return true;
    },
  });
  const answer = await ask("/branches", { gitRepo: "acme/app" });
  assert.equal(answer.status, 422);
  assert.match(answer.body.message, new RegExp(`^gitRepo cannot be read: .*${git.host}`));
});
