// Each way in which git fails has its sentence.
import assert from "node:assert/strict";
import { test } from "node:test";
import { explainGitFailure, explainMissingBranch } from "./git-error.ts";

const failure = { repository: "acme/app", host: "git.example.com", hasCredential: false };

const cases: [string, RegExp][] = [
  [
    "fatal: Authentication failed for 'https://git.example.com/acme/app.git/'",
    /does not exist, or it is private: .* Correct gitRepo \(PATCH …\/apps\/\{app\}, which builds it again\), or add a credential/,
  ],
  [
    "fatal: attempting to allocate 3221225473 over limit 1073741824\nfatal: fetch-pack: invalid index-pack output",
    /contains an object that takes more memory to unpack/,
  ],
  [
    "fatal: could not read Username for 'https://git.example.com': terminal prompts disabled",
    /or it is private/,
  ],
  ["fatal: repository 'https://git.example.com/acme/app.git/' not found", /or it is private/],
  [
    "git@git.example.com: Permission denied (publickey).\nfatal: Could not read from remote repository.",
    /or it is private/,
  ],
  [
    "Host key verification failed.\nfatal: Could not read from remote repository.",
    /SSH host key of git\.example\.com is not the one/,
  ],
  [
    "ssh: Could not resolve hostname git.example.com: Name or service not known\nfatal: Could not read from remote repository.",
    /name of the git host .* cannot be resolved/,
  ],
  [
    "fatal: unable to access 'https://git.example.com/': Could not resolve host: git.example.com",
    /cannot be resolved/,
  ],
  [
    "fatal: unable to access 'https://git.example.com/': Failed to connect to git.example.com port 443: Connection refused",
    /cannot be reached/,
  ],
  [
    "ssh: connect to host git.example.com port 22: Connection refused\nfatal: Could not read from remote repository.",
    /cannot be reached/,
  ],
  [
    "fatal: unable to access 'https://git.example.com/': server certificate verification failed.",
    /its certificate was refused/,
  ],
  [
    "fatal: unable to access 'https://git.example.com/acme/app/': The requested URL returned error: 301",
    /redirects are not followed/,
  ],
  [
    "fatal: unable to access 'https://git.example.com/acme/app/': The requested URL returned error: 503",
    /closed the connection/,
  ],
  ["fatal: remote error: upload-pack: not our ref 0123", /is not in acme\/app/],
  [
    "error: object 0123: hasDotgit: contains '.git'\nfatal: fsck error in packed object",
    /refuses as malformed/,
  ],
  ["fatal: something never seen", /^git could not fetch acme\/app: fatal: something never seen$/],
  ["", /^git could not fetch acme\/app\.$/],
];

test("git's words become a sentence with what to do", () => {
  for (const [output, expected] of cases)
    assert.match(explainGitFailure({ ...failure, output }), expected, output);
});

test("a repository's name is not taken for what went wrong", () => {
  const output = "fatal: repository 'https://git.example.com/acme/redirect-tls.git/' not found";
  assert.match(explainGitFailure({ ...failure, output }), /or it is private/);
});

test("with a credential it is the credential that is in doubt", () => {
  const text = explainGitFailure({
    ...failure,
    hasCredential: true,
    output: "fatal: Authentication failed",
  });
  assert.match(
    text,
    /the git credential that this project has for git\.example\.com is not allowed to read it/,
  );
});

test("the host of a repository that is named by its address is not said twice", () => {
  const output = "fatal: Authentication failed";
  assert.match(
    explainGitFailure({ ...failure, output }),
    /^acme\/app on git\.example\.com does not exist/,
  );
  const repository = "https://git.example.com/acme/app";
  assert.match(
    explainGitFailure({ ...failure, repository, output }),
    /example\.com\/acme\/app does not exist/,
  );
});

test("a missing branch is named with some of those that are there", () => {
  const branches = Array.from({ length: 12 }, (_, index) => `b${index}`);
  const text = explainMissingBranch({ repository: "acme/app", branch: "main", branches });
  assert.match(
    text,
    /^The branch "main" does not exist in acme\/app; it has: b0, .*b9 and 2 more\. Name one of them/,
  );
  assert.match(
    explainMissingBranch({ repository: "acme/app", branch: "main", branches: [] }),
    /has no branches yet/,
  );
});
