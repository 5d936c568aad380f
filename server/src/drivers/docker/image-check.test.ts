// What the check of an image makes of the engine's answers.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { BuildPlan } from "#drivers/builder.ts";
import { BuildFailed } from "#drivers/builder.ts";
import { checkImage } from "./image-check.ts";

function check(answer: string): Promise<number | null> {
  return checkImage(
    { run: () => Promise.resolve(answer) },
    {
      plan: { entrypoint: [], dockerfilePath: "Dockerfile" } as unknown as BuildPlan,
      image: "image",
      log: () => undefined,
    },
  );
}

test("an answer of another form is a fault of the platform, not one of the app's image", async () => {
  for (const answer of ["", "<no value>"])
    await assert.rejects(check(answer), (error) => {
      assert.ok(error instanceof Error && !(error instanceof BuildFailed));
      assert.ok(error.message.includes(JSON.stringify(answer)));
      return true;
    });
});

test("an image without a configuration, or with one that is too large, is refused in words", async () => {
  await assert.rejects(check("7 4 null"), /has neither CMD nor ENTRYPOINT/);
  await assert.rejects(check("7 256001 "), /has 256001 characters/);
});

test("the port that the image exposes is the app's, where it is one alone", async () => {
  const image = (ports: object): string =>
    `7 90 ${JSON.stringify({ Cmd: ["serve"], ExposedPorts: ports })}`;
  assert.equal(await check(image({ "8000/tcp": {}, "53/udp": {} })), 8000);
  assert.equal(await check(image({ "8000/tcp": {}, "9000/tcp": {} })), null);
});
