// Tags and short commits in place of a branch: what they mean, what is refused, and that the branch
// of the same name comes first.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { BuildFailed } from "#drivers/builder.ts";
import { startGitServer, type GitServer } from "#test/support/git-server.ts";
import { openSource } from "#test/support/source.ts";

/** A repository with three commits, of which the first has the tags `light` and `v1`. */
async function tagged(t: TestContext) {
  const server = await startGitServer(t);
  const first = await server.createRepo("acme", "app", { "main.py": "first\n" });
  const second = await server.push("acme", "app", { "main.py": "second\n" });
  const last = await server.push("acme", "app", { "main.py": "last\n" });
  await server.git("acme", "app", ["tag", "light", first]);
  await server.git("acme", "app", ["tag", "--annotate", "--message", "The first", "v1", first]);
  const source = openSource(t, server);
  const main = async (given: Parameters<typeof source.fetch>[0]) => {
    const fetched = await source.fetch(given);
    return { ...fetched, text: await readFile(join(fetched.appDir, "main.py"), "utf8") };
  };
  return { ...source, server, main, first, second, last };
}

async function refusal(fetching: Promise<unknown>): Promise<string> {
  const error = await fetching.then(
    () => assert.fail("it was fetched"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof BuildFailed, String(error));
  return error.message;
}

/**
 * Adds commits until two begin with the same digits, which takes a hundred thousand of them; here
 * the history is made by hand.
 */
async function addTwins(server: GitServer): Promise<string> {
  const tree = await server.git("acme", "app", ["rev-parse", "main^{tree}"]);
  const commit = (line: string): string =>
    `tree ${tree}\nauthor T <t@example.com> 1 +0000\ncommitter T <t@example.com> 1 +0000\n\n${line}\n`;
  const { createHash } = await import("node:crypto");
  const idOf = (text: string): string =>
    createHash("sha1").update(`commit ${text.length}\0${text}`).digest("hex");
  const seen = new Map<string, string>();
  for (let at = 0; ; at++) {
    const text = commit(String(at));
    const start = idOf(text).slice(0, 7);
    const other = seen.get(start);
    seen.set(start, text);
    if (other === undefined) continue;
    for (const one of [other, text]) {
      const id = await server.git(
        "acme",
        "app",
        ["hash-object", "-t", "commit", "-w", "--stdin"],
        one,
      );
      await server.git("acme", "app", ["update-ref", `refs/heads/twin-${id.slice(0, 12)}`, id]);
    }
    return start;
  }
}

test("a tag is deployed, lightweight or annotated, and the branch of the same name comes first", async (t) => {
  const { main, server, first, last, lines } = await tagged(t);
  for (const name of ["light", "v1", "refs/tags/v1"]) {
    const { text, commit, branch, defaultBranch } = await main({ gitBranch: name });
    assert.deepEqual(
      { text, commit, branch, defaultBranch },
      {
        text: "first\n",
        commit: first,
        branch: name,
        defaultBranch: null,
      },
    );
  }
  assert.ok(lines.includes("acme/app has a tag v1, and no branch of that name."), lines.join("\n"));
  await server.git("acme", "app", ["branch", "v1", last]);
  assert.equal((await main({ gitBranch: "v1" })).commit, last);
  assert.equal((await main({ gitBranch: "refs/tags/v1" })).commit, first);
  await server.git("acme", "app", ["update-ref", "refs/heads/refs/tags/v1", last]);
  assert.equal(
    (await main({ gitBranch: "refs/tags/v1" })).commit,
    first,
    "a branch cannot take the place of a tag",
  );
});

test("a commit is found by 7 of its digits or more, in history and by either name", async (t) => {
  const { main, second, sourcesDir, server } = await tagged(t);
  for (const allows of ["false", "true"]) {
    await server.git("acme", "app", ["config", "uploadpack.allowFilter", allows]);
    const asCommit = await main({ commit: second.slice(0, 7) });
    assert.deepEqual([asCommit.commit, asCommit.text, asCommit.branch], [second, "second\n", null]);
    const asBranch = await main({ gitBranch: second.slice(0, 12) });
    assert.deepEqual([asBranch.commit, asBranch.text, asBranch.branch], [second, "second\n", null]);
  }
  const whole = await main({ gitBranch: second });
  assert.deepEqual([whole.commit, whole.branch], [second, null]);
  for (const name of await readdir(sourcesDir))
    if (name !== "known-hosts") assert.deepEqual(await readdir(join(sourcesDir, name)), ["app"]);
});

test("a name that means nothing, or several commits, is refused with what to write instead", async (t) => {
  const { fetch, server, first } = await tagged(t);
  const unknown = first.startsWith("abcdef0") ? "abcdef1" : "abcdef0";
  for (const given of [{ gitBranch: unknown }, { commit: unknown }])
    assert.equal(
      await refusal(fetch(given)),
      `No commit of the branches and tags of acme/app begins with ${unknown}. Has it been pushed?`,
    );
  assert.match(
    await refusal(fetch({ gitBranch: "v9" })),
    /^The branch "v9" does not exist.*Name one of them, a tag,/,
  );
  assert.match(
    await refusal(fetch({ gitBranch: first.slice(0, 6) })),
    /a commit by 7 of its digits or more/,
  );
  const tree = await server.git("acme", "app", ["rev-parse", "main^{tree}"]);
  await server.git("acme", "app", ["tag", "folder", tree]);
  assert.equal(
    await refusal(fetch({ gitBranch: "folder" })),
    "Tag folder of acme/app does not point to a commit.",
  );
  const start = await addTwins(server);
  const text = await refusal(fetch({ commit: start }));
  assert.match(
    text,
    new RegExp(
      `^Several commits of acme/app begin with ${start}: ${start}.{33}, ${start}.{33}\\. Give`,
    ),
  );
});
