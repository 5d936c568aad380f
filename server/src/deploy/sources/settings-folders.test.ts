// Folders with a settings file, in listings as git writes them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SettingsFolders } from "./settings-folders.ts";

const id = "bafc5d9a1a836cea09dadcec13e66fe498cd997a";

function listing(...paths: readonly string[]): Buffer {
  return Buffer.from(paths.map((path) => `100644 blob ${id}\t${path}\0`).join(""));
}

test("folders are found once, whatever the pieces in which the listing arrives", () => {
  const bytes = Buffer.concat([
    listing(
      "cerebrium.toml",
      "apps/ä b/slipway.toml",
      "apps/ä b/cerebrium.toml",
      "apps/not-slipway.toml",
    ),
    Buffer.from(
      `120000 blob ${id}\tlink/slipway.toml\x00040000 tree ${id}\tfolder/slipway.toml\x00`,
    ),
    Buffer.concat([
      Buffer.from(`100644 blob ${id}\t`),
      Buffer.from([0xff]),
      Buffer.from("/slipway.toml\0"),
    ]),
  ]);
  for (const size of [1, 7, bytes.length]) {
    const folders = new SettingsFolders();
    for (let at = 0; at < bytes.length; at += size)
      assert.equal(folders.push(bytes.subarray(at, at + size)), true);
    assert.deepEqual(folders.result(), { folders: ["", "apps/ä b"], hasMore: false });
  }
});

test("a listing that is too long is not read to its end", () => {
  const many = new SettingsFolders();
  const names = Array.from({ length: 201 }, (_one, at) => `${at}/slipway.toml`);
  assert.equal(many.push(listing(...names.slice(0, 200))), true);
  assert.equal(many.push(listing(...names.slice(200))), false);
  assert.deepEqual([many.result().folders.length, many.result().hasMore], [200, true]);
  const long = new SettingsFolders();
  assert.equal(long.push(Buffer.alloc(5000, "a")), false);
  const deep = new SettingsFolders();
  const folder = Buffer.from(`040000 tree ${id}\ta\0`.repeat(50_000));
  assert.deepEqual(
    [1, 2, 3, 4, 5].map(() => deep.push(folder)),
    [true, true, true, true, false],
  );
});
