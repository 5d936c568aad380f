// `slipway audit verify` as an auditor runs it: on a machine without a platform, with the file and
// the public keys only.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test, type TestContext } from "node:test";
import { AuditExport } from "#audit/export/audit-export.ts";
import { record } from "#audit/record.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { emptyAuditLog } from "./support/as-owner.ts";
import { byPlatform } from "./support/accounts.ts";
import { chainOn, exportChain, testSigner } from "./support/audit-chain.ts";
import { testDatabase } from "./support/database.ts";
import { temporaryFolder } from "./support/folder.ts";
import "./support/leftovers.ts";

const main = join(import.meta.dirname, "../../cli/src/main.ts");
const projectId = "p-00000001" as ProjectId;

type Ran = { readonly code: number | null; readonly out: string; readonly told: string };

/** Runs it in an empty folder, with nothing of this machine's environment. */
async function verify(folder: string, parameters: readonly string[], input?: string): Promise<Ran> {
  const child = spawn(process.execPath, [main, "audit", "verify", ...parameters], {
    cwd: folder,
    env: { HOME: folder },
    stdio: ["pipe", "pipe", "pipe"],
    timeout: 60_000,
  });
  child.stdin.end(input);
  const [out, told] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (child.exitCode === null) await once(child, "exit");
  return { code: child.exitCode, out, told };
}

/** Files of an export and of its keys, in a folder of their own. */
async function stage(t: TestContext) {
  const { db } = await testDatabase(t);
  await db.insertInto("projects").values({ id: projectId, name: "one" }).execute();
  for (const name of ["a", "b", "c"]) {
    await record(db, {
      projectId,
      action: "app.create",
      by: byPlatform,
      resource: { type: "app", id: name },
    });
  }
  const signer = testSigner();
  const folder = temporaryFolder(t, "auditor");
  const exported = await exportChain(db, signer, projectId);
  const write = (name: string, content: string): void => writeFileSync(join(folder, name), content);
  write("audit.ndjson", exported);
  write("keys.json", JSON.stringify(signer.jwks));
  return { db, signer, folder, exported, write };
}

test("an export that is as it was written passes, from a file or from standard input", async (t) => {
  const { folder, exported } = await stage(t);
  const ran = await verify(folder, ["audit.ndjson", "--keys", "keys.json"]);
  assert.deepEqual([ran.code, ran.told], [0, ""]);
  assert.match(
    ran.out,
    /^Intact: 4 entries of the project p-00000001, exported at 20.*\.\nNumbers 1 to 4\.\nThe signatures of the header and 1 checkpoints are valid\.\n$/,
  );
  assert.deepEqual(await verify(folder, ["-", "--keys", "keys.json"], exported), ran);
  const asJson = await verify(folder, ["audit.ndjson", "--keys=keys.json", "--json"]);
  assert.equal((JSON.parse(asJson.out) as { result: string }).result, "intact");
});

test("without keys it says that no signature was checked", async (t) => {
  const { folder } = await stage(t);
  const ran = await verify(folder, ["audit.ndjson"]);
  assert.equal(ran.code, 0);
  assert.match(ran.told, /signatures were NOT checked/);
  assert.doesNotMatch(ran.out, /signatures/);
});

test("one that was altered does not, and its first wrong place is named, without what could move a terminal", async (t) => {
  const { folder, exported, write } = await stage(t);
  write("altered.ndjson", exported.replace('"id":"b"', '"id":"\\u001b[2J"'));
  const altered = await verify(folder, ["altered.ndjson", "--keys", "keys.json"]);
  assert.deepEqual([altered.code, altered.out], [1, ""]);
  assert.match(altered.told, /^Line 3, entry 2 \(id \d+\), was altered/);
  write("shorter.ndjson", exported.split("\n").toSpliced(2, 1).join("\n"));
  const shorter = await verify(folder, ["shorter.ndjson", "--keys", "keys.json", "--json"]);
  assert.equal(shorter.code, 1);
  const { message: _, ...verdict } = JSON.parse(shorter.out) as { message: string };
  assert.deepEqual(verdict, { result: "broken", trouble: "missing", line: 3, entry: 2 });
  write("coloured.ndjson", exported.replace(/"id":"2"/, '"id":"\u001b[2J"'));
  const coloured = await verify(folder, ["coloured.ndjson"]);
  assert.equal(coloured.code, 1);
  assert.ok(!coloured.told.includes("\u001b"));
});

test("one that goes on from an earlier export says so; one whose end was written anew, or is the older, is found out", async (t) => {
  const { db, signer, folder, write } = await stage(t);
  await record(db, {
    projectId,
    action: "app.create",
    by: byPlatform,
    resource: { type: "app", id: "d" },
  });
  write("later.ndjson", await exportChain(db, signer, projectId));
  const keys = ["--keys", "keys.json"];
  const goesOn = await verify(folder, ["later.ndjson", ...keys, "--earlier", "audit.ndjson"]);
  assert.deepEqual([goesOn.code, goesOn.told], [0, ""]);
  assert.match(goesOn.out, /\nIt continues the earlier export from 20.*, which ended with 4\.\n$/);
  const older = await verify(folder, ["audit.ndjson", ...keys, "--earlier", "later.ndjson"]);
  assert.deepEqual([older.code, older.out], [1, ""]);
  assert.match(
    older.told,
    /^This export ends with entry 4, but the earlier one with 6: the log was cut off/,
  );
  assert.equal(
    (await verify(folder, ["audit.ndjson", ...keys, "--earlier", "audit.ndjson"])).code,
    0,
  );

  // As whoever owns the database can: all is taken out, and what is written instead is signed by
  // the platform.
  await emptyAuditLog(db);
  for (let index = 0; index < 7; index++) {
    await record(db, {
      projectId,
      action: "app.create",
      by: byPlatform,
      resource: { type: "app", id: "x" },
    });
  }
  write("anew.ndjson", await exportChain(db, signer, projectId));
  assert.equal(
    (await verify(folder, ["anew.ndjson", ...keys])).code,
    0,
    "by itself it looks whole",
  );
  const anew = await verify(folder, ["anew.ndjson", ...keys, "--earlier", "later.ndjson"]);
  assert.equal(anew.code, 1);
  assert.match(anew.told, /^Not all entries up to 6 match the earlier export/);

  const other = await verify(folder, ["later.ndjson", ...keys, "--earlier", "keys.json"]);
  assert.equal(other.code, 2);
  assert.match(other.told, /^The earlier export keys\.json cannot be used: /);
});

test("what cannot be verified is told apart from what was altered", async (t) => {
  const { db, signer, folder, write } = await stage(t);
  const exporter = new AuditExport({
    db,
    clock: systemClock,
    chain: chainOn(db, signer),
    retentionOf: () => 365,
  });
  const wish = {
    projectId,
    format: "ndjson",
    from: null,
    to: null,
    action: "app.create",
    actorId: null,
    outcome: null,
  } as const;
  let narrowed = "";
  for await (const part of await exporter.begin(wish, byPlatform)) narrowed += part;
  write("narrowed.ndjson", narrowed);
  write("other.json", JSON.stringify({ keys: [] }));
  write("other.txt", "nothing of the sort\n");
  for (const [parameters, form] of [
    [["narrowed.ndjson", "--keys", "keys.json"], /was filtered/],
    [["other.txt"], /is not that of an exported audit log/],
    [["absent.ndjson"], /^absent\.ndjson cannot be read: ENOENT/],
    [["."], /cannot be read: EISDIR/],
    [["audit.ndjson", "--keys", "absent.json"], /The keys cannot be read from absent\.json/],
    [["audit.ndjson", "--keys", "other.json"], /contains no public signing keys/],
    [["audit.ndjson", "--keys", "other.txt"], /contains no public signing keys/],
    [["audit.ndjson", "--key", "keys.json"], /--key is not a valid option; did you mean --keys\?/],
    [[], /file is missing/],
  ] as const) {
    const ran = await verify(folder, parameters);
    assert.deepEqual([ran.code, ran.out], [2, ""], parameters.join(" "));
    assert.match(ran.told, form);
  }
});

test("the keys may come from a platform", async (t) => {
  const { folder, signer } = await stage(t);
  const body = JSON.stringify(signer.jwks);
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.once("data", () =>
      socket.end(
        `HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      ),
    );
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/.well-known/jwks.json`;
  const ran = await verify(folder, ["audit.ndjson", "--keys", url]);
  assert.deepEqual([ran.code, ran.told], [0, ""]);
  server.close();
  const later = await verify(folder, ["audit.ndjson", "--keys", url]);
  assert.equal(later.code, 2);
  assert.match(later.told, /The keys cannot be fetched from http:/);
});

/** The file that an import in `file` names. */
function fileOf(name: string, file: string): string {
  if (name.startsWith("@slipway/server/")) {
    return join(import.meta.dirname, "../..", name.replace("@slipway/", ""));
  }
  if (name.startsWith("#")) return join(import.meta.dirname, "../src", name.slice(1));
  return join(file, "..", name);
}

test("it needs no database, and no package but the one that checks signatures", () => {
  const seen = new Set<string>();
  const walk = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const [, name = ""] of readFileSync(file, "utf8").matchAll(
      /^import (?!type )[^;]*?"([^"]+)";/gm,
    )) {
      if (name.startsWith("node:") || name === "jose") continue;
      assert.ok(
        name.startsWith(".") || name.startsWith("#") || name.startsWith("@slipway/server/"),
        `${file} imports ${name}`,
      );
      walk(fileOf(name, file));
    }
  };
  walk(join(main, "../audit-verify.ts"));
  assert.ok(seen.size > 8);
});
