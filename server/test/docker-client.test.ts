// Which docker command line builds images.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { findClient } from "#drivers/docker/docker-client.ts";
import { temporaryFolder } from "#test/support/folder.ts";

/** Folders with a client each, as a PATH. */
function pathWith(
  t: TestContext,
  clients: readonly { readonly version: number; readonly hasPlugin: boolean }[],
): string[] {
  const folder = temporaryFolder(t, "clients");
  return clients.map(({ version, hasPlugin }, index) => {
    const dir = join(folder, String(index));
    mkdirSync(dir);
    const script = `#!/bin/sh\n[ "$1" != buildx ] || exit ${hasPlugin ? 0 : 1}\necho "Docker version ${version}.0.1, build x"\n`;
    writeFileSync(join(dir, "docker"), script, { mode: 0o755 });
    return dir;
  });
}

const find = (folders: readonly string[]) => findClient({ PATH: [...folders, "/bin"].join(":") });

test("a client that cannot use BuildKit is passed over for one that can", async (t) => {
  const [first = "", second = ""] = pathWith(t, [
    { version: 28, hasPlugin: false },
    { version: 20, hasPlugin: false },
  ]);
  assert.deepEqual(await find([first, second]), {
    ok: true,
    program: join(second, "docker"),
    build: ["build"],
  });
});

test("the plugin buildx is used where it is", async (t) => {
  const [folder = ""] = pathWith(t, [{ version: 28, hasPlugin: true }]);
  assert.deepEqual(await find([folder]), {
    ok: true,
    program: join(folder, "docker"),
    build: ["buildx", "build"],
  });
});

test("without a usable client the reason names those that are there", async (t) => {
  const [folder = ""] = pathWith(t, [{ version: 28, hasPlugin: false }]);
  const found = await findClient({ PATH: folder });
  assert.deepEqual(found, {
    ok: false,
    reason: `${folder}/docker cannot build images without its plugin buildx`,
  });
  assert.deepEqual(await findClient({ PATH: "" }), {
    ok: false,
    reason: "there is no docker command line in the PATH",
  });
});
