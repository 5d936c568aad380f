// The beginning of a file in a container: what the engine sends, whole or broken off.
import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import type Docker from "dockerode";
import { pack, type Headers } from "tar-stream";
import { beginOfFile } from "./container-archive.ts";

/** A container whose engine sends this archive. */
function containerThatSends(archive: PassThrough): Docker.Container {
  const container = {
    inspect: () => Promise.resolve({ Config: { WorkingDir: "/app" } }),
    getArchive: () => Promise.resolve(archive),
  };
  return container as unknown as Docker.Container;
}

function archiveOf(header: Headers, content: string): PassThrough {
  const packed = pack();
  packed.entry(header, content);
  packed.finalize();
  return packed.pipe(new PassThrough());
}

test("the first bytes of a file are returned, and nothing of a link", async () => {
  const file = archiveOf({ name: "start.sh" }, "#!/bin/sh\necho long\n");
  assert.equal(String(await beginOfFile(containerThatSends(file), "start.sh", 9)), "#!/bin/sh");
  const link = archiveOf({ name: "start.sh", type: "symlink", linkname: "/etc/passwd" }, "");
  assert.equal(await beginOfFile(containerThatSends(link), "start.sh", 9), null);
});

test("an answer that breaks off is an error, in a file as before it", async () => {
  const whole = (await archiveOf({ name: "start.sh" }, "x".repeat(2000)).toArray()) as Buffer[];
  for (const sent of [100, 1000]) {
    const archive = new PassThrough();
    archive.write(Buffer.concat(whole).subarray(0, sent));
    setImmediate(() => archive.destroy(new Error("the engine went away")));
    await assert.rejects(
      beginOfFile(containerThatSends(archive), "start.sh", 1500),
      /the engine went away/,
    );
  }
});
