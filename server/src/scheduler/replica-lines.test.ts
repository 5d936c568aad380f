// Where the lines of replicas go: to the log of their app, and to whoever follows a replica.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReplicaLine } from "#drivers/driver.ts";
import type { AppId, ProjectId, ReplicaId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { ReplicaLines } from "./replica-lines.ts";

const replicaId = "app-0001" as ReplicaId;
const owner = { projectId: "p-0123abcd" as ProjectId, appId: "p-0123abcd-app" as AppId };

function lineOf(text: string, of: ReplicaId = replicaId): ReplicaLine {
  return { replicaId: of, at: 0, stream: "stdout", runId: null, text };
}

function opened() {
  const stored: object[] = [];
  const lines = new ReplicaLines({
    store: {
      append: (some) => {
        stored.push(...some);
        return Promise.resolve();
      },
    },
    ownerOf: (of) => (of === replicaId ? owner : undefined),
    clock: new VirtualClock(),
    log: silentLog,
  });
  return { lines, stored };
}

test("a line is stored for the app of its replica; one of an unknown replica is dropped", async () => {
  const { lines, stored } = opened();
  await lines.append([lineOf("known"), lineOf("unknown", "other-0001" as ReplicaId)]);
  assert.deepEqual(stored, [{ ...lineOf("known"), ...owner }]);
});

test("who follows a replica gets its lines until it follows no longer", async () => {
  const { lines, stored } = opened();
  const texts: string[] = [];
  await lines.append([lineOf("before")]);
  {
    using _following = lines.follow(replicaId, ({ text }) => texts.push(text));
    await lines.append([lineOf("meanwhile"), lineOf("of another", "other-0001" as ReplicaId)]);
  }
  await lines.append([lineOf("after")]);
  assert.deepEqual(texts, ["meanwhile"]);
  assert.equal(stored.length, 3);
});
