// The registries that builds may pull from, and the images that a Dockerfile names.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BuildFailed } from "#drivers/builder.ts";
import { imagesIn, isSameImage, mayPull, registryIn } from "./image-sources.ts";

test("the registry of an image's name is the one that the engine would ask", () => {
  const cases = {
    debian: "docker.io",
    "library/debian:12": "docker.io",
    "127.0.0.1:5000/a": "127.0.0.1:5000",
    "localhost/a": "localhost",
    "LocalHost/a": "localhost",
    "Evil/a": "evil",
    "evil.example/a@sha256:0": "evil.example",
    "debian:1/a": "debian:1",
  };
  for (const [image, registry] of Object.entries(cases))
    assert.equal(registryIn(image), registry, image);
});

test("builds pull from usual public registries and those that the operator has added, and no others", () => {
  for (const image of [
    "debian",
    "ghcr.io/a/b",
    "us-docker.pkg.dev/a/b",
    "1.dkr.ecr.eu-west-1.amazonaws.com/a",
  ])
    assert.ok(mayPull(image, []), image);
  for (const image of [
    "127.0.0.1:5000/a",
    "localhost/a",
    "evil.example/a",
    "evil.gcr.io.example/a",
    "a.b.gcr.io/a",
    "ghcr.io:8443/a",
    "ec2-1-2-3-4.compute.amazonaws.com/a",
    "169.254.169.254/a",
    "ghcr.io.evil.example/a",
  ])
    assert.ok(!mayPull(image, []), image);
  assert.ok(mayPull("registry.example.com:5000/a", ["registry.example.com:5000"]));
  assert.ok(!mayPull("registry.example.com:5001/a", ["registry.example.com:5000"]));
  assert.ok(mayPull("team.registry.example.com/a", ["*.Registry.example.com"]));
  assert.ok(mayPull("127.0.0.1:5000/a", ["*"]));
});

test("each image that a Dockerfile can name is found, its own stages are not", () => {
  const found = (text: string, given = {}): string[] => imagesIn(text, given).toSorted();
  const own =
    "FROM debian AS base\nFROM base\nCOPY --from=base /a /a\nCOPY --from=0 /a /a\nFROM scratch\n";
  assert.deepEqual(found(own), ["debian"]);
  const evil = [
    "FROM evil.example/a",
    'from --platform=$BUILDPLATFORM "evil.example/a" AS x',
    "FROM evil\\.example/a",
    "FROM \\\n# remark\n  evil.example/a",
    "FROM `\n  evil.example/a",
    "ARG A=evil.example\nFROM $A/a",
    'ARG A=evil".example"\nFROM $A/a',
    'ARG B=\\" A=evil.example C=\\"\nFROM $A/a',
    "ARG B=b\u0085A=evil.example\nFROM $A/a",
    "ARG A=evil.example\nARG B=${A}/a\nFROM ${B}",
    "FROM ${A:-evil.example}/a",
    "COPY --chown=1 --from=evil.example/a /a /a",
    "ONBUILD COPY --from=evil.example/a /a /a",
    "RUN --mount=type=bind,from=evil.example/a,target=/a ls",
    'RUN --network=none --mount="type=bind, from=evil.example/a",target=/a ls',
    "RUN --mount=type=bind,fr\\om=evil.example/a ls",
  ];
  for (const text of evil) assert.ok(found(text).includes("evil.example/a"), text);
  assert.deepEqual(found("ARG A=debian\nFROM $A", { A: "evil.example/a" }), [
    "debian",
    "evil.example/a",
  ]);
  assert.ok(found("FROM localhos${A}t/a").includes("localhost/a"));
  assert.deepEqual(found("FROM debian\nRUN curl --from=evil.example/a 'https://a/?from=b.c/d'"), [
    "debian",
  ]);
  assert.deepEqual(found("ARG V=3.12\nFROM python:${V}-slim"), ["python:3.12-slim"]);
});

test("a name that cannot be told is refused", () => {
  const many = Array.from({ length: 300 }, (_, index) => `ARG A=${index}`).join("\n");
  for (const text of [
    "FROM ${A#b}/a",
    "FROM ${A:+b}/a",
    "COPY --from=$A /a /a",
    "RUN --mount=from=${A} ls",
    `${many}\nFROM $A`,
    "ARG A=$A\nFROM $A",
  ])
    assert.throws(() => imagesIn(text, {}), BuildFailed, text);
});

test("an image is the same under its short name and written out, in any version", () => {
  const digest = `sha256:${"a".repeat(64)}`;
  for (const [own, other] of [
    ["debian", `docker.io/library/debian:latest@${digest}`],
    ["debian:12", "docker.io/library/debian:12"],
    ["acme/base", "docker.io/acme/base:1"],
    ["index.docker.io/acme/base", "docker.io/acme/base"],
    ["localhost:5000/a/b", `localhost:5000/a/b:1@${digest}`],
    ["GHCR.io/a/b", "ghcr.io/a/b:2"],
  ] as const)
    assert.ok(isSameImage(own, other), `${own} ${other}`);
  for (const [own, other] of [
    ["debian", "docker.io/acme/debian"],
    ["debian", "evil.example/library/debian"],
    ["localhost:5000/a", "localhost:5001/a"],
    ["a/b", "ghcr.io/a/b"],
  ] as const)
    assert.ok(!isSameImage(own, other), `${own} ${other}`);
});

test("an instruction names its images however many lines it has", () => {
  const remarks = "# x\n".repeat(60);
  const evil = "evil.example/a";
  for (const text of [
    `FROM \\\n${remarks}${evil}`,
    `F\\\n${remarks}ROM ${evil}`,
    `ONBUILD \\\n${remarks}COPY \\\n${remarks}--from=${evil} /a /a`,
    `COPY \\\n${remarks}--chown=1:1 \\\n\n--from=${evil} /a /a`,
    `RUN --mount="type=bind,\\\n${remarks}from=${evil}" \\\n ls`,
    `RUN \\\n-\\\n-mount=type=bind,from=${evil} ls`,
    `ARG A=\\\n${remarks}${evil}\nFROM $A`,
    `FROM \`\n${remarks}${evil}`,
  ])
    assert.ok(imagesIn(text, {}).includes(evil), text);
  const endless = "\\\n".repeat(60);
  for (const text of [`FROM ${endless}${evil}`, `COPY ${endless}--from=${evil} /a /a`])
    assert.throws(() => imagesIn(text, {}), BuildFailed, text);
  const packages = Array.from({ length: 200 }, (_, index) => `  python3-a${index} \\\n`).join("");
  assert.deepEqual(imagesIn(`FROM debian\nRUN apt-get install --yes \\\n${packages}  curl`, {}), [
    "debian",
  ]);
});

test("what only looks like a stage hides no image", () => {
  for (const image of ["evil.example/a", "127.0.0.1:5000/t/a:1"])
    for (const use of [`FROM ${image}`, `FROM debian\nCOPY --from=${image} /a /a`])
      assert.ok(
        imagesIn(`FROM debian\nRUN true \\\n FROM debian AS ${image}\n${use}`, {}).includes(image),
        use,
      );
});
