// Submodules: fetched at their commits where the app wants it, from allowed hosts alone, bounded,
// and said where it does not.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { BuildFailed } from "#drivers/builder.ts";
import { Secret } from "#lib/secret.ts";
import { startGitServer, type GitServer, type RepositoryFiles } from "#test/support/git-server.ts";
import { lfsServer } from "#test/support/lfs-server.ts";
import { openSource } from "#test/support/source.ts";

type Modules = Readonly<Record<string, { readonly url: string; readonly commit: string }>>;

/** A commit with submodules: `.gitmodules`, and the entries of the tree. */
async function pushWith(
  server: GitServer,
  repo: string,
  files: RepositoryFiles,
  modules: Modules,
): Promise<string> {
  const text = Object.entries(modules)
    .map(([path, { url }]) => `[submodule "${path}"]\n\tpath = ${path}\n\turl = ${url}\n`)
    .join("");
  const head = await server.createRepo("acme", repo, { ...files, ".gitmodules": text });
  const entries = Object.entries(modules).flatMap(([path, { commit }]) => [
    "--cacheinfo",
    `160000,${commit},${path}`,
  ]);
  await server.git("acme", repo, ["read-tree", head]);
  await server.git("acme", repo, ["update-index", "--add", ...entries]);
  const tree = await server.git("acme", repo, ["write-tree"]);
  const commit = await server.git("acme", repo, [
    "commit-tree",
    tree,
    "-p",
    head,
    "-m",
    "Submodules",
  ]);
  await server.git("acme", repo, ["update-ref", "refs/heads/main", commit]);
  return commit;
}

async function refusal(fetching: Promise<unknown>): Promise<string> {
  const error = await fetching.then(
    () => assert.fail("it was fetched"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof BuildFailed, String(error));
  return error.message;
}

test("submodules are fetched at their commits, also in each other, with their LFS files", async (t) => {
  const origin = { text: "" };
  const lfs = lfsServer(() => origin.text);
  const server = await startGitServer(t, { intercept: lfs.intercept });
  origin.text = `http://${server.host}`;
  const inner = await server.createRepo("acme", "inner", {
    ".gitattributes": "*.bin filter=lfs\n",
    "deep.bin": lfs.add("weights ".repeat(100)),
    "deep.py": "deep\n",
    out: { link: "/etc/passwd" },
  });
  await server.push("acme", "inner", { "deep.py": "newer\n" });
  const modules = { "in/ner": { url: "../inner.git", commit: inner } };
  const outer = await pushWith(server, "outer", { "outer.py": "outer\n" }, modules);
  const commit = await pushWith(
    server,
    "app",
    { "apps/api/main.py": "", "apps/other/main.py": "" },
    {
      "apps/api/libs/outer": { url: `http://${server.host}/acme/outer.git`, commit: outer },
      "apps/other/lib": { url: "https://elsewhere.example/x/y", commit: inner },
    },
  );
  const { fetch, lines, sourcesDir } = openSource(t, server);
  const fetched = await fetch({ gitPath: "apps/api", gitSubmodules: true, gitLfs: true });
  const libs = join(fetched.appDir, "libs/outer");
  assert.equal(await readFile(join(libs, "outer.py"), "utf8"), "outer\n");
  assert.equal(await readFile(join(libs, "in/ner/deep.py"), "utf8"), "deep\n");
  assert.equal(await readFile(join(libs, "in/ner/deep.bin"), "utf8"), "weights ".repeat(100));
  assert.deepEqual((await readdir(join(libs, "in/ner"))).toSorted(), [
    ".gitattributes",
    "deep.bin",
    "deep.py",
  ]);
  assert.deepEqual(
    [fetched.commit, fetched.content],
    [commit, `${commit} with submodules with LFS`],
  );
  assert.ok(lfs.requests.some(({ path }) => path === "/acme/inner.git/info/lfs/objects/batch"));
  assert.ok(!lines.some((line) => line.includes("submodules are not fetched")), lines.join("\n"));
  for (const name of await readdir(sourcesDir))
    if (name !== "known-hosts") assert.deepEqual(await readdir(join(sourcesDir, name)), ["app"]);

  const without = await fetch({ gitPath: "apps/api" });
  assert.deepEqual(await readdir(join(without.appDir, "libs/outer")), []);
  const said =
    "Warning: submodules are not fetched; these folders are empty: libs/outer. To fetch them: set gitSubmodules of the app to true, or submodules = true below [slipway.git] in its slipway.toml.";
  assert.ok(lines.includes(said), lines.join("\n"));
});

test("a submodule from anywhere but an allowed git host is refused by its name, and no credential is shown", async (t) => {
  const server = await startGitServer(t, { credentials: "me:hush" });
  const credential = { kind: "token", username: "me", secret: new Secret("hush") } as const;
  const commit = await server.createRepo("acme", "lib", { "a.py": "" });
  const { fetch, hosts } = openSource(t, { ...server, credential });
  const urls = [
    "file:///etc",
    "ext::sh -c touch%20x",
    "ssh://me@other.example/acme/lib",
    "git://127.0.0.1/acme/lib",
    "http://127.0.0.1:9/acme/lib",
    "http://me:secret@169.254.169.254/latest/meta-data",
    "/srv/git/lib.git",
    "../../../other/../lib",
  ];
  for (const [index, url] of urls.entries()) {
    await pushWith(server, `app${index}`, { "main.py": "" }, { libs: { url, commit } });
    const text = await refusal(fetch({ gitRepo: `acme/app${index}`, gitSubmodules: true }));
    assert.match(
      text,
      /^The submodule libs cannot be fetched: its address ".+" (leads|is not)/,
      url,
    );
    const advice = url.startsWith("..") ? "whole URL in .gitmodules." : "to SLIPWAY_GIT_HOSTS.";
    assert.ok(text.endsWith(advice), text);
    assert.doesNotMatch(text, /secret/);
  }
  await pushWith(server, "own", { "main.py": "" }, { libs: { url: "../lib", commit } });
  await fetch({ gitRepo: "acme/own", gitSubmodules: true });
  assert.deepEqual(new Set(hosts), new Set([server.host]));
});

test("submodules share the limits of their repository, and one that is missing is named", async (t) => {
  const server = await startGitServer(t);
  const { randomBytes } = await import("node:crypto");
  const large = await server.createRepo("acme", "large", { "a.dat": randomBytes(1_500_000) });
  const twice = {
    one: { url: "../large", commit: large },
    two: { url: "../large", commit: large },
  };
  await pushWith(server, "app", { "main.py": "" }, twice);
  const small = openSource(t, { ...server, bytesMax: 2_000_000 });
  assert.match(
    await refusal(small.fetch({ gitSubmodules: true })),
    /larger than (2 MB|the [01] MB that the rest of the app leaves)/,
  );
  const { fetch } = openSource(t, server);
  const gone = large.replace(/^./, (digit) => (digit === "0" ? "1" : "0"));
  await pushWith(server, "missing", { "main.py": "" }, { libs: { url: "../large", commit: gone } });
  const missing = await refusal(fetch({ gitRepo: "acme/missing", gitSubmodules: true }));
  assert.match(missing, /^The submodule libs cannot be fetched: .*commit is not in acme\/large/);
  assert.match(missing, /Push it there, or set the submodule to another commit\.$/);
  await pushWith(server, "lost", { "main.py": "" }, { libs: { url: "../nowhere", commit: gone } });
  const lost = await refusal(fetch({ gitRepo: "acme/lost", gitSubmodules: true }));
  assert.match(lost, /acme\/nowhere .* Correct its address in \.gitmodules, or add a credential/);
  const head = await server.createRepo("acme", "loop", { "main.py": "" });
  const loops = Object.fromEntries(
    Array.from({ length: 51 }, (_, at) => [`m${at}`, { url: "../loop", commit: head }]),
  );
  await pushWith(server, "many", { "main.py": "" }, loops);
  const many = await refusal(fetch({ gitRepo: "acme/many", gitSubmodules: true }));
  assert.match(many, /there are more than 50 submodules\.$/);
});
