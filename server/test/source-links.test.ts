// Links in repositories: what stays, what is followed within the repository, and what is left out.
import assert from "node:assert/strict";
import { lstat, readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { BuildFailed } from "#drivers/builder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { openSource } from "#test/support/source.ts";

test("links that lead out of the folder are left out with a warning, others stay", async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", {
    "main.py": "",
    inside: { link: "main.py" },
    passwd: { link: "/etc/passwd" },
    "deep/up": { link: "../../../etc" },
    "deep/root": { link: ".." },
    chain: { link: "deep/root/../../x" },
    nowhere: { link: "missing/file" },
  });
  const { fetch, lines } = openSource(t, server);
  const { appDir } = await fetch();
  assert.deepEqual((await readdir(appDir)).sort(), ["deep", "inside", "main.py", "nowhere"]);
  assert.deepEqual(await readdir(join(appDir, "deep")), ["root"]);
  for (const name of ["passwd", "deep/up", "chain"]) {
    assert.ok(
      lines.some((line) => line.includes(`the link ${name} points outside`)),
      `${name} is named`,
    );
  }
});

test("a link to another folder of the repository is followed, in the repository alone", async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", {
    "apps/api/main.py": "",
    "apps/api/common": { link: "../../libs/common" },
    "apps/api/deep/one.py": { link: "../../../libs/common/one.py" },
    "apps/api/passwd": { link: "../../../../../../../../etc/passwd" },
    "apps/api/all": { link: "../.." },
    "apps/api/self": { link: "." },
    "apps/api/gone": { link: "../../libs/gone" },
    "apps/api/hop": { link: "../../libs/common/out" },
    "apps/api/through": { link: "../../libs/common/here/two.py" },
    "libs/common/one.py": "one\n",
    "libs/common/run.sh": "#!/bin/sh\n",
    "libs/common/near": { link: "one.py" },
    "libs/common/here": { link: "../other" },
    "libs/common/back": { link: "../common" },
    "libs/common/out": { link: "/etc/passwd" },
    "libs/other/two.py": "two\n",
    "libs/other/again": { link: "../common" },
  });
  const { fetch, lines } = openSource(t, server);
  const { appDir } = await fetch({ gitPath: "apps/api" });
  const read = (path: string): Promise<string> => readFile(join(appDir, path), "utf8");
  assert.equal(await read("common/one.py"), "one\n");
  assert.equal(await read("common/near"), "one\n");
  assert.equal(await read("common/here/two.py"), "two\n");
  assert.equal(await read("deep/one.py"), "one\n");
  assert.equal(((await stat(join(appDir, "common/run.sh"))).mode & 0o111) !== 0, true);
  assert.ok((await lstat(join(appDir, "common"))).isDirectory());
  assert.deepEqual((await readdir(appDir)).sort(), ["common", "deep", "main.py", "self"]);
  assert.ok(
    lines.some((line) => line.includes("The link common leads to libs/common of the repository")),
  );
  for (const name of ["passwd", "all", "gone", "hop", "through", "common/out"]) {
    assert.ok(
      lines.some((line) => line.includes(`the link ${name} points outside`)),
      `${name} is named: ${lines.join("\n")}`,
    );
  }
  // Nothing of it depends on what an earlier build has left.
  const { appDir: again } = await fetch({ gitPath: "apps/api" });
  assert.equal(await readFile(join(again, "common/here/two.py"), "utf8"), "two\n");
});

test("a build fails in words when a link's files cannot be written, here by too long paths", async (t) => {
  const server = await startGitServer(t);
  // Each is within the limit of a path; together they are longer than the system takes.
  const longPath = `${"d".repeat(203)}/`.repeat(10) + "names.py";
  await server.createRepo("acme", "app", {
    "apps/api/main.py": "",
    [`apps/api/${longPath}`]: { link: `${"../".repeat(12)}libs` },
    [`libs/${longPath}`]: "one\n",
    "libs/two.py": "two\n",
  });
  const { fetch } = openSource(t, server);
  await assert.rejects(fetch({ gitPath: "apps/api" }), (error) => {
    assert.ok(error instanceof BuildFailed, String(error));
    assert.match(error.message, /acme\/app/);
    return true;
  });
});
