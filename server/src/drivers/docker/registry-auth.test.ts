// Which registries get which credentials of an app.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Secret } from "#lib/secret.ts";
import { authOf, digestsIn, imagesOf, registryAuths } from "./registry-auth.ts";

const usual = "https://index.registry.example/v1/";
const auth = Buffer.from("reader:a:b").toString("base64");
const read = (text: string, ...images: string[]) => registryAuths(new Secret(text), images, usual);

test("a name and a password count for the registry of the base image", () => {
  assert.deepEqual(read("reader:a:b", "own.example:5000/team/base:1"), {
    "own.example:5000": { auth },
  });
  assert.deepEqual(read("reader:a:b", "localhost/base"), { localhost: { auth } });
});

test("a name and a password never reach a second registry", () => {
  assert.deepEqual(read("reader:a:b", "own.example/a", "debian:1"), { "own.example": { auth } });
  assert.throws(
    () => read("reader:a:b", "own.example/a", "other.example/b"),
    /of several registries \(own\.example, other\.example\)/,
  );
});

test("an image without a registry is of the engine's own one", () => {
  assert.deepEqual(read("reader:a:b", "debian:1", "team/base", "registry.example/x"), {
    [usual]: { auth },
  });
});

test("Docker's configuration counts as it is, without the programs that it names", () => {
  const entry = { auth: "x", identitytoken: "y", evil: "z" };
  const config = {
    auths: { "own.example": entry, empty: {} },
    credsStore: "evil",
    credHelpers: { "own.example": "evil" },
  };
  assert.deepEqual(read(JSON.stringify(config)), {
    "own.example": { auth: "x", identitytoken: "y" },
  });
  assert.deepEqual(read(JSON.stringify({ "own.example": { username: "a", password: "b" } })), {
    "own.example": { username: "a", password: "b" },
  });
});

for (const text of ["sesame", "{sesame", "sesame sesame:x", '{"auths": null}']) {
  test(`what has neither form is refused without being shown: ${text.length} characters of ${text[0]}`, () => {
    assert.throws(
      () => read(text, "a"),
      (error) =>
        String(error).startsWith("BuildFailed: dockerAuth is not shown here") &&
        !String(error).includes("sesame"),
    );
  });
}

test("a Dockerfile's images are those after FROM", () => {
  const text =
    "FROM --platform=x own.example/a:1 AS b\nFROM b\nfrom  c@sha256:1\n# FROM d\nARG E\nFROM $E\n";
  assert.deepEqual(imagesOf(text), ["own.example/a:1", "c@sha256:1"]);
});

test("images by digest are found wherever a Dockerfile names them", () => {
  const of = (name: string): string => `${name}@sha256:${"0".repeat(64)}`;
  const text = [
    `# syntax=${of("own.example/front")}`,
    `# ${of("remark")}`,
    `ARG BASE=${of("a.example:5000/team/a")}`,
    `FROM $BASE\nCOPY --from=${of("b:1")} /x /\nRUN --mount=from=${of("c")},target=/c true`,
  ].join("\n");
  const names = ["own.example/front", "a.example:5000/team/a", "b:1", "c"];
  assert.deepEqual(digestsIn(text), names.map(of));
});

test("long lines are read in moments", () => {
  for (const unit of ["a", "\n", " ", "FROM a AS b\n", "--a ", "a@sha256:", "@sha"]) {
    const text = `FROM ${unit.repeat(Math.floor(100_000 / unit.length))}`;
    imagesOf(text);
    digestsIn(text);
  }
});

test("the engine gets the name and the password for the image's registry alone", () => {
  const own = read("reader:a:b", "own.example/a");
  assert.deepEqual(authOf("own.example/x@sha256:1", own, usual), {
    auth,
    username: "reader",
    password: "a:b",
  });
  assert.equal(authOf("other.example/x@sha256:1", own, usual), undefined);
  const token = { "https://index.registry.example/v1/": { identitytoken: "t" } };
  assert.deepEqual(authOf("team/x@sha256:1", token, usual), { identitytoken: "t" });
});
