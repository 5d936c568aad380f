// What the builder makes of the output of BuildKit, old and new.
import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { explainBuildFailure } from "./build-error.ts";
import { BuildProgress, type ProgressOptions } from "./build-progress.ts";
import { hasHereDocument } from "./dockerfile-check.ts";
import type { ImageStep } from "./dockerfile.ts";

const packages: ImageStep = {
  kind: "packages",
  stage: "dependencies",
  title: "Python packages, with pip",
};
const command = { list: "shell_commands", number: 2, line: "make" };
const after: ImageStep = { kind: "command", stage: "commands", title: "$ make", command };
const apt: ImageStep = { kind: "apt", stage: "dependencies", title: "apt: x" };
const steps = new Map<string, ImageStep>([
  ["packages", packages],
  ["after-2", after],
  ["apt", apt],
  ["app", { kind: "code", stage: "code", title: "Compiled files" }],
]);

/** The options of a build that reports nothing. */
function quiet(): ProgressOptions {
  return {
    steps: new Map(),
    images: [],
    log: () => undefined,
    mask: (text) => text,
    facts: new Map(),
    onRun: null,
    clock: new VirtualClock(),
    onFetch: () => undefined,
    onImage: () => undefined,
    onDigest: () => undefined,
  };
}

function read(output: string, known: ReadonlyMap<string, ImageStep> = steps) {
  const clock = new VirtualClock();
  const lines: string[] = [];
  let runs = 0;
  const fetched: string[] = [];
  const progress = new BuildProgress({
    ...quiet(),
    steps: known,
    images: ["debian"],
    log: (...parts) => void lines.push(parts.join(" ")),
    onRun: () => void runs++,
    onFetch: (title) => void fetched.push(title),
    clock,
  });
  for (const line of output.split("\n")) progress.line(line);
  const why = explainBuildFailure(progress.failure(), {
    hasAuth: false,
    baseImage: null,
    memoryBytes: null,
    headLines: 1,
    hasHereDocument: output.includes("unknown instruction: ECHO"),
  });
  return {
    lines,
    fetched,
    clock,
    runs: () => runs,
    facts: progress.facts,
    why,
    isBroken: progress.isConnectionBroken,
  };
}

test("each line of output has the step that it is of", () => {
  const { lines, runs, facts } = read(`#1 [internal] load build definition from Dockerfile
#1 sha256:00
#1 transferring dockerfile: 32B done
#1 DONE 0.1s

#5 [packages 1/1] RUN --mount=type=secret,id=a ["/bin/sh","-c","set -e"]
#5 0.355 Collecting six
#6 [after-2 1/1] RUN ["/bin/sh","-c","make"]
#6 0.5 gcc
#5 ...

#5 [packages 1/1] RUN --mount=type=secret,id=a ["/bin/sh","-c","set -e"]
#5 1.355 
#5 1.400 slipway-fact: pythonVersion=3.11
#5 1.500 slipway-warning: Python 3.12 is used.
#5 DONE 0.4s
#7 exporting to image`);
  assert.deepEqual(lines, [
    "dependencies platform Python packages, with pip",
    "dependencies stdout Collecting six",
    "commands platform $ make",
    "commands stdout gcc",
    "dependencies stdout ",
    "dependencies platform Warning: Python 3.12 is used.",
    "code platform Exporting to image",
  ]);
  assert.equal(runs(), 1);
  assert.deepEqual([...facts], [["pythonVersion", "3.11"]]);
});

test("what an earlier build has made is named once, and does not count as a run", () => {
  const { lines, runs } = read(`#5 [packages 1/2] RUN x
#5 CACHED
#6 [packages 2/2] RUN y
#6 CACHED`);
  assert.deepEqual(lines, [
    "dependencies platform Python packages, with pip",
    "dependencies platform CACHED: Python packages, with pip",
  ]);
  assert.equal(runs(), 0);
});

const failures: [string, string, RegExp][] = [
  [
    "a command, as BuildKit 0.8 says it",
    `#6 [after-2 1/1] RUN ["/bin/sh","-c","set -e"]
#6 0.5 broken
#6 ERROR: executor failed running [/bin/sh -c set -e
make]: exit code: 2
------
 > [after-2 1/1] RUN x:
#6 0.5 broken
------
executor failed running [/bin/sh -c set -e
make]: exit code: 2`,
    /^Command 2 of shell_commands ended with exit code 2: make\. It says: broken\. See its output above; fix/,
  ],
  [
    "a command, as newer ones say it",
    `#6 [after-2 1/1] RUN ["/bin/sh","-c","set -e"]
#6 0.500 killed
#6 ERROR: process "/bin/sh -c make" did not complete successfully: exit code: 137
ERROR: failed to solve: process "/bin/sh -c make" did not complete successfully: exit code: 137`,
    /^Command 2 of shell_commands ended with exit code 137 \(killed, possibly because it ran out of memory\): make\./,
  ],
  [
    "an engine that cannot run a step, as BuildKit 0.8 says it",
    `#9 [app 1/1] RUN ["/bin/sh","-c","# Build 01"]
#9 ERROR: executor failed running [/bin/sh -c # Build 01
set -e
[ ! -f /x ] || . /x]: failed to create endpoint a on network bridge: could not find bridge docker0: no such network interface
------
 > [app 1/1] RUN x:
------
executor failed running [/bin/sh -c # Build 01
set -e
[ ! -f /x ] || . /x]: failed to create endpoint a on network bridge: could not find bridge docker0: no such network interface`,
    /^The Docker engine could not run a step of the build \(Compiled files\): .*could not find bridge docker0: no such network interface\. This is not the app's fault: the operator has to check the engine \(slipway doctor/,
  ],
  [
    "an engine that cannot run a step, as newer ones say it",
    `#9 [2/2] RUN make
#9 ERROR: process "/bin/sh -c # Build 01\\nset -e" did not complete successfully: could not find bridge docker0
ERROR: failed to build: failed to solve: process "/bin/sh -c # Build 01\\nset -e" did not complete successfully: could not find bridge docker0`,
    /^The Docker engine could not run a step of the build \(Step 2\/2: RUN make\): could not find bridge docker0\. This/,
  ],
  [
    "a base image without a shell",
    `#6 [after-2 1/1] RUN x
#6 0.2 container_linux.go:380: starting container process caused: exec: "/bin/sh": stat /bin/sh: no such file or directory
#6 ERROR: executor failed running [/bin/sh -c make]: runc did not terminate sucessfully`,
    /^The base image has no \/bin\/sh, which the steps of a build need: choose another one/,
  ],
  [
    "a system package that pip lacks",
    "#5 [packages 1/1] RUN x\n#5 1.0 Error: pg_config executable not found.\n#5 ERROR: exit code: 1",
    /add the Debian package libpq-dev below \[cerebrium\.dependencies\.apt\]/,
  ],
  [
    "a package that the distribution lacks",
    "#5 [apt 1/1] RUN x\n#5 1.0 E: Unable to locate package ffmpg\n#5 ERROR: process did not: exit code: 100",
    /^There is no package ffmpg for this base image/,
  ],
  [
    "servers of packages that do not answer",
    "#5 [apt 1/1] RUN x\n#5 1.0 E: Failed to fetch x  Could not resolve\n#5 ERROR: process did not: exit code: 100",
    /^The package lists of the base image cannot be downloaded/,
  ],
  [
    "a base image that is not there",
    "#3 [internal] load metadata for registry.example/none:1\n#3 ERROR: registry.example/none:1: not found",
    /^There is no base image registry\.example\/none:1: check its name and tag/,
  ],
  [
    "a base image that must not be pulled",
    "#3 [internal] load metadata for registry.example/own:1\n#3 ERROR: pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials",
    /^The base image registry\.example\/own:1 cannot be pulled: it may need credentials, and the app has no dockerAuth\. .*set dockerAuth/,
  ],
  [
    "a reason that a script has given",
    "#5 [packages 1/1] RUN x\n#5 1.0 slipway-problem: Python 3.12 is nowhere.\n#5 ERROR: exit code: 1",
    /^Python 3\.12 is nowhere\.$/,
  ],
  [
    "an engine that does not answer",
    "ERROR: Cannot connect to the Docker daemon at unix:///run/docker.sock. Is the docker daemon running?",
    /^The Docker engine does not answer\. The operator has to start it/,
  ],
  [
    "a full disk",
    "#5 [packages 1/1] RUN x\n#5 1.0 OSError: [Errno 28] No space left on device\n#5 ERROR: exit code: 1",
    /^The disk of the Docker engine is full/,
  ],
  [
    "a full disk, as a step of the app's own Dockerfile says it",
    '#5 [2/3] RUN ./fill\n#5 1.0 /dev/shm/x: No space left on device\n#5 ERROR: exit code: 1\nERROR: failed to solve: process "/bin/sh -c ./fill" did not complete successfully: exit code: 1',
    /^Step 2\/3.*: this step ended with exit code 1.* if the step does not fill one itself, ask the operator/,
  ],
  [
    "an unknown instruction, as newer engines say it",
    "#1 [internal] load build definition from Dockerfile\n#1 DONE 0.1s\ndockerfile parse error on line 2: unknown instruction: FORM (did you mean FROM?)",
    /^The Dockerfile cannot be read: line 1: unknown instruction: FORM \(did you mean FROM\?\)\. Fix it/,
  ],
  [
    "what newer engines say without a word in front",
    "#1 [internal] load build definition from Dockerfile\n#1 DONE 0.1s\nbase name ($X) should not be blank\n",
    /^The image could not be built: base name \(\$X\) should not be blank\. See/,
  ],
  [
    "a right that no build has",
    "#2 DONE 0.0s\nERROR: failed to build: failed to solve: failed to load LLB: network.host is not allowed",
    /^A step of the Dockerfile asks for --network=host, which no build gets here: leave it out, and/,
  ],
  [
    "something unknown",
    "#5 exporting to image\n#5 ERROR: it broke",
    /^The image could not be built: it broke\. See/,
  ],
];

test("a here-document that an old engine takes for instructions is named with the line that makes it read", () => {
  const output = "failed to solve: dockerfile parse error line 4: unknown instruction: ECHO";
  assert.equal(
    read(output).why,
    "The Dockerfile cannot be read: line 3: unknown instruction: ECHO. Docker here reads here-documents (<<EOF) only when the first line asks for it: write # syntax=docker/dockerfile:1 there and build it again (POST …/apps/{app}/builds).",
  );
  for (const dockerfile of ["FROM x\nRUN <<EOF\necho\nEOF\n", "FROM x\ncopy <<-'END' /a\nx\nEND\n"])
    assert.equal(hasHereDocument(dockerfile), true, dockerfile);
  for (const dockerfile of [
    "# syntax=docker/dockerfile:1\nRUN <<EOF\necho\nEOF\n",
    "FROM x\nRUN echo a << 3\n",
  ])
    assert.equal(hasHereDocument(dockerfile), false, dockerfile);
});

for (const [what, output, form] of failures) {
  test(`a build that fails is explained: ${what}`, () => assert.match(read(output).why, form));
}

test("an app's command that prints what only the builder's scripts say is taken for output", () => {
  const printed = `#5 0.1 slipway-problem: Call 555-1234.
#5 0.2 slipway-warning: Python is unsafe.
#5 0.3 slipway-fact: pythonVersion=9
#5 ERROR: process "/bin/sh -c make" did not complete successfully: exit code: 1`;
  for (const step of ["[after-2 1/1] RUN x", "[2/2] RUN make"]) {
    const { why, lines, facts } = read(`#5 ${step}\n${printed}`);
    assert.doesNotMatch(why, /^Call/);
    assert.deepEqual(
      lines.slice(1).map((line) => line.replace(/^\w+ /, "")),
      [
        "stdout slipway-problem: Call 555-1234.",
        "stdout slipway-warning: Python is unsafe.",
        "stdout slipway-fact: pythonVersion=9",
      ],
    );
    assert.deepEqual([...facts], []);
  }
});

test("what a step has said explains no other step's failure", () => {
  const { why } = read(`#5 [packages 1/1] RUN x
#5 0.1 slipway-problem: Python is nowhere.
#5 DONE 0.2s
#6 [after-2 1/1] RUN x
#6 ERROR: process "/bin/sh -c make" did not complete successfully: exit code: 1`);
  assert.match(why, /^Command 2 of shell_commands/);
});

test("an address that the engine fetches is told", () => {
  const output = `#4 [1/3] FROM docker.io/library/debian
#4 DONE 0.1s

#6 http://127.0.0.1:5432/
#6 DONE 0.1s

#7 [2/3] ADD http://127.0.0.1:5432/ /got
`;
  assert.deepEqual(read(output, new Map()).fetched, [
    "http://127.0.0.1:5432/",
    "[2/3] ADD http://127.0.0.1:5432/ /got",
  ]);
});

test("the base image of another build, which BuildKit shows too, is no image of this one", () => {
  const digest = `sha256:${"b".repeat(64)}`;
  const named: string[] = [];
  const lines: string[] = [];
  const progress = new BuildProgress({
    ...quiet(),
    images: ["debian:12", "quay.io/a/tools"],
    log: (...parts) => void lines.push(parts.join(" ")),
    onImage: (image) => void named.push(image),
  });
  const output = `#1 [2/3] FROM docker.io/library/debian:12@${digest}
#2 [internal] load metadata for docker.io/library/debian:12
#3 [internal] load metadata for quay.io/a/tools:latest
#5 [base 1/4] FROM other.example/team/secret:1@${digest}
#5 CACHED
#6 FROM quay.io/a/tools:latest@${digest}
#7 FROM evil.example/a/b`;
  for (const line of output.split("\n")) progress.line(line);
  assert.deepEqual(named, [
    "docker.io/library/debian:12",
    "quay.io/a/tools:latest",
    `quay.io/a/tools:latest@${digest}`,
    "evil.example/a/b",
  ]);
  assert.deepEqual(lines, [
    `prepare platform Step 2/3: FROM docker.io/library/debian:12@${digest}`,
  ]);
});

test("neither a secret nor a line that looks like a step hides what the engine is asked for", () => {
  const fetched: string[] = [];
  const images: string[] = [];
  const digests: string[] = [];
  const lines: string[] = [];
  const hidden = ["http://", "evil.example:5000", "@sha256:"];
  const progress = new BuildProgress({
    ...quiet(),
    steps,
    log: (...parts) => void lines.push(parts.join(" ")),
    mask: (text) => hidden.reduce((shown, value) => shown.replaceAll(value, "[secret]"), text),
    onFetch: (title) => void fetched.push(title),
    onImage: (image) => void images.push(image),
    onDigest: (image) => void digests.push(image),
  });
  const output = `#7 [1/3] RUN echo a
#7 0.1 ADD http://in-the-output/ /got
#8 y
#9 y
#8 http://127.0.0.1:5432/got
#9 [packages 2/3] ADD http://127.0.0.1:5432/ /got
#10 [internal] load metadata for evil.example:5000/a@sha256:${"a".repeat(64)}
#11 FROM evil.example:5000/b`;
  for (const line of output.split("\n")) progress.line(line);
  assert.deepEqual(fetched, [
    "http://127.0.0.1:5432/got",
    "[packages 2/3] ADD http://127.0.0.1:5432/ /got",
  ]);
  assert.deepEqual(images, [`evil.example:5000/a@sha256:${"a".repeat(64)}`, "evil.example:5000/b"]);
  assert.deepEqual(digests, [`evil.example:5000/a@sha256:${"a".repeat(64)}`]);
  assert.ok(!hidden.some((value) => lines.join("\n").includes(value)), lines.join("\n"));
});

test("a connection that broke is told from a step that failed with the same words", () => {
  const base = "#4 [base 1/1] FROM x\n#4 ERROR: rpc error: code = Internal desc = unexpected EOF\n";
  assert.equal(read(base).isBroken, true);
  assert.equal(read("#5 [packages 1/1] RUN x\n#5 1.0 half\nunexpected EOF").isBroken, true);
  for (const before of ["", "ERROR: ", "ERROR: failed to build: "]) {
    assert.equal(
      read(`${before}Cannot connect to the Docker daemon at unix:///x. Is it running?`).isBroken,
      true,
    );
    assert.equal(read(`${before}unexpected EOF`).isBroken, true);
  }
  assert.equal(
    read("#5 [packages 1/1] RUN x\n#5 1.0 unexpected EOF\n#5 ERROR: exit code: 1").isBroken,
    false,
  );
  const step =
    "#5 [packages 1/1] RUN x\n#5 1.0 unexpected EOF\n#5 ERROR: process did not complete: exit code: 1\n";
  assert.equal(
    read(`${step}------\nunexpected EOF\n------\nexecutor failed running [x]: exit code: 1`)
      .isBroken,
    false,
  );
});

test("a command counts as running when it prints nothing, and not when its result is there", async () => {
  const commandOf = (id: string): string => `#${id} [after-2 1/1] RUN ["/bin/sh","-c","make"]`;
  const silent = read(commandOf("5"));
  assert.equal(silent.runs(), 0);
  await silent.clock.advance(1000);
  assert.equal(silent.runs(), 1);
  for (const text of [`${commandOf("5")}\n#5 CACHED`, "#5 [2/3] COPY . ."]) {
    const other = read(text);
    await other.clock.advance(1000);
    assert.equal(other.runs(), 0, text);
  }
});

test("what an app's own commands print is no fact and no other step", () => {
  const { facts, fetched } = read(
    `#5 [2/2] RUN true\n#5 0.1 slipway-fact: pythonVersion=9\n#5 0.2 \r#6 https://10.0.0.1/x\n#5 0.3 a\rb\r`,
    new Map(),
  );
  assert.equal(facts.size, 0);
  assert.deepEqual(fetched, []);
  const own = read(
    `#5 [packages 1/1] RUN true\n#5 0.1 slipway-fact: other=9\n#5 0.2 slipway-fact: takesRootPath=true`,
  );
  assert.deepEqual([...own.facts], [["takesRootPath", "true"]]);
});
