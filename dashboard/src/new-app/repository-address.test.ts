// Reading of pasted addresses of repositories.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readRepositoryAddress, suggestedName } from "./repository-address.ts";

test("an address of a folder's page gives repository, branch and folder, whatever the git host", () => {
  const there = { gitBranch: "main", gitPath: "apps/hello world" };
  const path = "apps/hello%20world";
  for (const [address, gitRepo] of [
    [
      `https://github.com/acme/app/tree/main/${path}/?tab=readme#top`,
      "https://github.com/acme/app",
    ],
    [
      `https://gitlab.example/group/sub/app/-/tree/main/${path}`,
      "https://gitlab.example/group/sub/app",
    ],
    [`https://codeberg.org/acme/app/src/branch/main/${path}`, "https://codeberg.org/acme/app"],
    [`https://bitbucket.org/acme/app/src/main/${path}`, "https://bitbucket.org/acme/app"],
  ] as const) {
    assert.deepEqual(readRepositoryAddress(address), { gitRepo, ...there }, address);
  }
});

test("everything else stays as it was typed, but for spaces and slashes around it", () => {
  for (const text of [
    "acme/app",
    "git@github.com:acme/app.git",
    "https://github.com/acme/app",
    "no repository",
    "",
  ]) {
    assert.deepEqual(readRepositoryAddress(text), { gitRepo: text });
  }
  assert.deepEqual(readRepositoryAddress(" https://github.com/acme/app.git/ "), {
    gitRepo: "https://github.com/acme/app.git",
  });
});

test("an address whose percent signs mean nothing does not throw", () => {
  assert.equal(
    readRepositoryAddress("https://a.example/o/r/tree/main/%E0%A4%A").gitPath,
    "%E0%A4%A",
  );
});

test("an app is called like its folder or its repository, if that can be a name", () => {
  assert.equal(suggestedName({ gitRepo: "acme/Image_Resize.git" }), "image-resize");
  assert.equal(suggestedName({ gitRepo: "git@github.com:acme/app.git" }), "app");
  assert.equal(suggestedName({ gitRepo: "acme/app", gitPath: "apps/hello" }), "hello");
  assert.equal(suggestedName({ gitRepo: "acme/app", gitPath: "日本" }), "");
  assert.equal(suggestedName({ gitRepo: "" }), "");
});
