// Fetching repositories with the real git from a real git server: what is pinned, what is refused,
// what is said.
import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import type { GitCredential } from "#apps/credentials.ts";
import { BuildFailed } from "#drivers/builder.ts";
import { Secret } from "#lib/secret.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { openSource } from "#test/support/source.ts";

async function refusal(fetching: Promise<unknown>): Promise<string> {
  const error = await fetching.then(
    () => assert.fail("it was fetched"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof BuildFailed, String(error));
  return error.message;
}

/** Folders of builds; `known-hosts` stays. */
async function leftovers(sourcesDir: string): Promise<string[]> {
  return (await readdir(sourcesDir)).filter((name) => name !== "known-hosts");
}

test("the head of the branch is fetched, its commit is named, and .git is not there", async (t) => {
  const server = await startGitServer(t);
  const commit = await server.createRepo("acme", "app", {
    "main.py": "x = 1\n",
    "lib/a.py": "",
    "run.sh": "#!/bin/sh\n",
  });
  const { fetch, lines } = openSource(t, server);
  const fetched = await fetch();
  assert.equal(fetched.commit, commit);
  assert.deepEqual((await readdir(fetched.appDir, { recursive: true })).sort(), [
    "lib",
    "lib/a.py",
    "main.py",
    "run.sh",
  ]);
  assert.ok(lines.some((line) => line.includes(commit)));
});

test("a pinned commit is fetched although the branch has moved on", async (t) => {
  const server = await startGitServer(t);
  const first = await server.createRepo("acme", "app", { "main.py": "x = 1\n" });
  await server.push("acme", "app", { "main.py": "x = 2\n" });
  const { fetch } = openSource(t, server);
  const fetched = await fetch({ commit: first });
  assert.equal(fetched.commit, first);
  assert.equal(await readFile(join(fetched.appDir, "main.py"), "utf8"), "x = 1\n");
});

test("a commit that is gone is named as gone", async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": "" });
  const { fetch, sourcesDir } = openSource(t, server);
  assert.match(
    await refusal(fetch({ commit: "0123456789012345678901234567890123456789" })),
    /is not in acme\/app/,
  );
  assert.deepEqual(await leftovers(sourcesDir), []);
});

test("only the app's folder is taken, and a folder that is not there is named with those that are", async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", {
    "README.md": "",
    "apps/one/main.py": "one",
    "docs/a.md": "",
  });
  const { fetch } = openSource(t, server);
  assert.deepEqual(await readdir((await fetch({ gitPath: "./apps/one/" })).appDir), ["main.py"]);
  assert.match(
    await refusal(fetch({ gitPath: "app" })),
    /folder "app" does not exist in acme\/app at commit [0-9a-f]{7}; it has: apps, docs/,
  );
  assert.match(await refusal(fetch({ gitPath: "README.md" })), /is not a folder/);
  assert.match(
    await refusal(fetch({ gitPath: "apps/../.." })),
    /gitPath is "apps\/..\/..", but must be a folder inside/,
  );
});

test("a branch that is not there is named with those that are", async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": "" }, "trunk");
  await server.push("acme", "app", { "main.py": "" }, "release/1.x");
  const { fetch } = openSource(t, server);
  assert.match(
    await refusal(fetch()),
    /^The branch "main" does not exist in acme\/app; it has: release\/1.x, trunk. Name one of them/,
  );
  assert.ok(await fetch({ gitBranch: "release/1.x" }));
});

test("a repository that is not there or is private: the sentence says which of both, as far as it is known", async (t) => {
  const server = await startGitServer(t, { credentials: "x-access-token:right" });
  const commit = await server.createRepo("acme", "app", { "main.py": "" });
  const none = openSource(t, server);
  assert.match(
    await refusal(none.fetch()),
    /does not exist, or it is private: this project has no git credential for 127/,
  );
  assert.deepEqual(none.hosts, [server.host]);
  const wrong = openSource(t, {
    ...server,
    credential: { kind: "token", username: null, secret: new Secret("wrong") },
  });
  assert.match(
    await refusal(wrong.fetch()),
    /the git credential that this project has for .* is not allowed to read it/,
  );
  const right = openSource(t, {
    ...server,
    credential: { kind: "token", username: null, secret: new Secret("right") },
  });
  assert.equal((await right.fetch()).commit, commit);
  assert.match(
    await refusal(right.fetch({ gitRepo: "acme/other" })),
    /acme\/other on 127\S+ does not exist/,
  );
});

test("a token is in no log line, no URL and no file", async (t) => {
  const token = "tok-5f3a9c-very-secret";
  const server = await startGitServer(t, { credentials: `bot:${token}` });
  await server.createRepo("acme", "app", { "main.py": "" });
  const credential: GitCredential = { kind: "token", username: "bot", secret: new Secret(token) };
  const { fetch, lines, sourcesDir } = openSource(t, { ...server, credential });
  await fetch();
  await refusal(fetch({ gitRepo: "acme/nothing" }));
  const encoded = Buffer.from(`bot:${token}`).toString("base64");
  const seen = [...lines, ...server.requests.map((request) => request.path)];
  for (const entry of await readdir(sourcesDir, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) seen.push(await readFile(join(entry.parentPath, entry.name), "latin1"));
  }
  assert.ok(server.requests.some((request) => request.authorization === `Basic ${encoded}`));
  for (const text of seen) assert.ok(!text.includes(token) && !text.includes(encoded));
});

test("a redirect is not followed, and no credential goes to where it leads", async (t) => {
  const other = await startGitServer(t);
  await other.createRepo("acme", "app", { "main.py": "" });
  const intercept = (request: IncomingMessage, response: ServerResponse): boolean => {
    response.writeHead(301, { location: `http://${other.host}${request.url ?? ""}` }).end();
    return true;
  };
  const server = await startGitServer(t, { intercept });
  const credential: GitCredential = { kind: "token", username: null, secret: new Secret("abc") };
  const { fetch } = openSource(t, { ...server, credential });
  assert.match(await refusal(fetch()), /to another address, and redirects are not followed/);
  assert.deepEqual(other.requests, []);
});

test("hooks and submodules of a hostile repository do nothing; LFS files stay pointers; each is said", async (t) => {
  const server = await startGitServer(t);
  const canary = join(temporaryFolder(t, "canary"), "ran");
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${"a".repeat(64)}\nsize 12345\n`;
  await server.createRepo("acme", "app", {
    "main.py": "",
    "hooks/post-checkout.sh": `#!/bin/sh\ntouch ${canary}\n`,
    ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n*.x filter=evil\n",
    ".lfsconfig": "[lfs]\n\turl = http://127.0.0.1:9/\n",
    "model.bin": pointer,
    "a.x": "x",
  });
  const blob = await server.git(
    "acme",
    "app",
    ["hash-object", "-w", "--stdin"],
    '[submodule "s"]\n\tpath = s\n\turl = ext::sh -c touch%20x\n',
  );
  const head = await server.git("acme", "app", ["rev-parse", "main"]);
  const listing = await server.git("acme", "app", ["ls-tree", head]);
  const tree = await server.git(
    "acme",
    "app",
    ["mktree"],
    `${listing}\n100644 blob ${blob}\tother.txt\n160000 commit ${head}\tsub\n`,
  );
  const commit = await server.git("acme", "app", ["commit-tree", tree, "-m", "submodule"]);
  await server.git("acme", "app", ["update-ref", "refs/heads/main", commit]);
  const { fetch, lines } = openSource(t, server);
  const { appDir } = await fetch();
  assert.equal(await readFile(join(appDir, "model.bin"), "utf8"), pointer);
  assert.deepEqual(await readdir(join(appDir, "sub")), []);
  assert.ok(lines.some((line) => /submodules are not fetched.*: sub\./.test(line)));
  assert.ok(lines.some((line) => /Git LFS are not fetched.*: model.bin\./.test(line)));
  await assert.rejects(readFile(canary));
});

test("a tree with a .git folder or a submodule that is an option is refused by git", async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": "" });
  const blob = await server.git(
    "acme",
    "app",
    ["hash-object", "-w", "--stdin"],
    "[core]\n\tfsmonitor = touch x\n",
  );
  const inner = await server.git("acme", "app", ["mktree"], `100644 blob ${blob}\tconfig\n`);
  // git itself refuses to make such a tree, hence by hand.
  const entry = Buffer.concat([Buffer.from("40000 .git\0"), Buffer.from(inner, "hex")]);
  const tree = await server.git(
    "acme",
    "app",
    ["hash-object", "-t", "tree", "-w", "--stdin", "--literally"],
    entry,
  );
  const commit = await server.git("acme", "app", ["commit-tree", tree, "-m", "evil"]);
  await server.git("acme", "app", ["update-ref", "refs/heads/main", commit]);
  const { fetch, sourcesDir } = openSource(t, server);
  assert.match(await refusal(fetch()), /malformed/);
  assert.deepEqual(await leftovers(sourcesDir), []);
});

test("a name that is not UTF-8 is refused in words", async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": "" });
  const blob = await server.git("acme", "app", ["hash-object", "-w", "--stdin"], "x");
  const entry = Buffer.concat([
    Buffer.from("100644 "),
    Buffer.from([0x66, 0xff, 0x66]),
    Buffer.from([0]),
    Buffer.from(blob, "hex"),
  ]);
  const tree = await server.git(
    "acme",
    "app",
    ["hash-object", "-t", "tree", "-w", "--stdin"],
    entry,
  );
  const commit = await server.git("acme", "app", ["commit-tree", tree, "-m", "odd"]);
  await server.git("acme", "app", ["update-ref", "refs/heads/main", commit]);
  const { fetch } = openSource(t, server);
  assert.match(await refusal(fetch()), /a file whose name is not valid UTF-8/);
});

test("a repository that is too large is given up on while it is fetched", async (t) => {
  const server = await startGitServer(t);
  const { randomBytes } = await import("node:crypto");
  await server.createRepo("acme", "app", { "main.py": "", "weights.bin": randomBytes(6_000_000) });
  const { fetch, sourcesDir } = openSource(t, { ...server, bytesMax: 2_000_000 });
  assert.match(await refusal(fetch()), /(larger|more) than 2 MB/);
  assert.deepEqual(await leftovers(sourcesDir), []);
});

test("a tree that unpacks to far more than was sent is refused before a file is written", async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": "" });
  const blob = await server.git("acme", "app", ["hash-object", "-w", "--stdin"], "x".repeat(1000));
  const emptyTree = await server.git("acme", "app", ["mktree"], "");
  const { fetch } = openSource(t, server);
  for (const [inner, innerKind] of [
    [blob, "100644 blob"],
    [emptyTree, "040000 tree"],
  ] as const) {
    let object: string = inner;
    let kind: string = innerKind;
    for (let level = 0; level < 12; level++) {
      const entries = Array.from({ length: 10 }, (_, index) => `${kind} ${object}\te${index}`).join(
        "\n",
      );
      object = await server.git("acme", "app", ["mktree"], `${entries}\n`);
      kind = "040000 tree";
    }
    const commit = await server.git("acme", "app", ["commit-tree", object, "-m", "bomb"]);
    await server.git("acme", "app", ["update-ref", "refs/heads/main", commit]);
    assert.match(
      await refusal(fetch()),
      /cannot be deployed: (it contains more than 200000 (files|folders)|its files are larger than 50 MB)/,
    );
  }
});

test("a host that does not answer ends the fetch within the limit", async (t) => {
  const server = await startGitServer(t, { intercept: () => true });
  const { fetch, sourcesDir } = openSource(t, { ...server, timeoutMs: 700 });
  assert.match(await refusal(fetch()), /took longer than 1 s \(SLIPWAY_GIT_TIMEOUT_SECONDS\)/);
  assert.deepEqual(await leftovers(sourcesDir), []);
});

test("a cancelled fetch ends at once with the reason of its signal and leaves nothing", async (t) => {
  const asked = Promise.withResolvers<void>();
  const server = await startGitServer(t, { intercept: () => (asked.resolve(), true) });
  const { fetch, sourcesDir } = openSource(t, server);
  const cancel = new AbortController();
  const fetching = fetch({ signal: cancel.signal });
  await asked.promise;
  const reason = new Error("cancelled");
  cancel.abort(reason);
  await assert.rejects(fetching, reason);
  assert.deepEqual(await leftovers(sourcesDir), []);
});

test("over ssh the key is a file of mode 0600 that is gone afterwards, and nothing of the machine's own is used", async (t) => {
  const server = await startGitServer(t);
  const commit = await server.createRepo("acme", "app", { "main.py": "" });
  const root = join(await server.git("acme", "app", ["rev-parse", "--absolute-git-dir"]), "../..");
  const bin = temporaryFolder(t, "ssh bin'");
  // Stands in for ssh and a server with sshd: notes what it was given and runs what it was asked
  // to, here.
  const script = `#!/bin/sh
printf '%s\\n' "$@" > '${bin.replaceAll("'", "'\\''")}/given'
while [ $# -gt 2 ]; do [ "$1" = -i ] && { cat "$2"; stat -c %a "$2"; } >> '${bin.replaceAll("'", "'\\''")}/given'; shift; done
cd ${root} && eval "exec $(printf %s "$2" | sed "s#'/#'${root}/#")"
`;
  await writeFile(join(bin, "ssh"), script, { mode: 0o755 });
  const credential: GitCredential = {
    kind: "ssh_key",
    username: null,
    secret: new Secret("-----KEY-----\nabc\n"),
  };
  const setup = {
    urlTemplate: "ssh://git.example.com/{owner}/{repo}.git",
    credential,
    path: `${bin}:${process.env["PATH"] ?? ""}`,
  };
  const { fetch, hosts, sourcesDir } = openSource(t, setup);
  assert.equal((await fetch()).commit, commit);
  assert.deepEqual(hosts, ["git.example.com"]);
  const given = (await readFile(join(bin, "given"), "utf8")).split("\n");
  for (const expected of [
    "StrictHostKeyChecking=accept-new",
    "BatchMode=yes",
    "IdentitiesOnly=yes",
    "ProxyCommand=none",
    "User=git",
    "-----KEY-----",
    "600",
  ]) {
    assert.ok(given.includes(expected), `${expected} in ${given.join(" ")}`);
  }
  assert.ok(
    given.some((line) => line.startsWith(`UserKnownHostsFile="${sourcesDir}/known-hosts/p-`)),
  );
  const key = given[given.indexOf("-i") + 1] ?? "";
  await assert.rejects(readFile(key), { code: "ENOENT" });
});

test("what ssh says of a changed host key names no folder of the platform", async (t) => {
  const bin = temporaryFolder(t, "ssh");
  const script = `#!/bin/sh
file=$(printf '%s\\n' "$@" | sed -n 's/^UserKnownHostsFile="\\(.*\\)"$/\\1/p')
echo "Offending ED25519 key in $file:1" >&2
echo "Host key verification failed." >&2
exit 255
`;
  await writeFile(join(bin, "ssh"), script, { mode: 0o755 });
  const credential: GitCredential = {
    kind: "ssh_key",
    username: null,
    secret: new Secret("-----KEY-----\nabc\n"),
  };
  const path = `${bin}:${process.env["PATH"] ?? ""}`;
  const setup = { urlTemplate: "ssh://git.example.com/{owner}/{repo}.git", credential, path };
  const { fetch, lines, sourcesDir } = openSource(t, setup);
  assert.match(
    await refusal(fetch()),
    /SSH host key of git\.example\.com is not the one that was seen before/,
  );
  assert.match(lines.join("\n"), /Offending ED25519 key in known-hosts\/p-\w+:1/);
  assert.ok(!lines.join("\n").includes(sourcesDir));
});

test("names that are no names are refused before git is started", async (t) => {
  const { fetch, sourcesDir } = openSource(t, {
    urlTemplate: "http://127.0.0.1:9/{owner}/{repo}.git",
  });
  assert.match(await refusal(fetch({ gitRepo: "--upload-pack=touch x/y" })), /^gitRepo is /);
  assert.match(await refusal(fetch({ gitBranch: "--upload-pack=touch" })), /^gitBranch is /);
  assert.match(await refusal(fetch()), /git host 127.0.0.1:9 cannot be reached/);
  assert.deepEqual(await leftovers(sourcesDir), []);
});

test("a file: address works when the operator set one", async (t) => {
  const server = await startGitServer(t);
  const commit = await server.createRepo("acme", "app", { "main.py": "" });
  const folder = await server.git("acme", "app", ["rev-parse", "--absolute-git-dir"]);
  const { fetch, hosts } = openSource(t, {
    urlTemplate: `file://${join(folder, "../..")}/{owner}/{repo}.git`,
  });
  assert.equal((await fetch()).commit, commit);
  assert.deepEqual(hosts, []);
});
