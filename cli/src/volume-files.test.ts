// What is asked again, and what is not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiRefused } from "./api-client.ts";
import { whenNotBusy } from "./volume-files.ts";

test("a refusal because too much was sent is asked again, no other one", async () => {
  const refused = (status: number) => new ApiRefused(status, `status ${status}`, null);
  let asked = 0;
  const busyTwice = () => (++asked < 3 ? Promise.reject(refused(429)) : Promise.resolve("done"));
  assert.equal(await whenNotBusy(busyTwice, 1), "done");
  assert.equal(asked, 3);
  await assert.rejects(
    whenNotBusy(() => Promise.reject(refused(413)), 1),
    /status 413/,
  );
  await assert.rejects(
    whenNotBusy(() => (asked++, Promise.reject(refused(429))), 1),
    /status 429/,
  );
  assert.equal(asked, 33);
});
