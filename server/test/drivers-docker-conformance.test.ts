// The Docker driver keeps what every driver must, on a real engine.
import "#test/support/leftovers.ts";
import { test } from "node:test";
import { noEngine } from "#test/support/docker-engine.ts";
import { DockerFixture } from "#test/support/docker-fixture.ts";
import { conformance } from "#test/support/driver-conformance.ts";

const skip = await noEngine();
if (skip === false) conformance("docker", () => DockerFixture.open());
else test("the docker driver", { skip }, () => undefined);
