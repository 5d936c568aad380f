// Compares async runs with job queues on the same PostgreSQL: accepting, starting, executing,
// delivering, and accepting with a backlog of another app. The contenders take turns in each round,
// so that other load on the machine affects all alike.
import { closeSync, fdatasyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import {
  acceptAndFinish,
  type AcceptAndFinish,
  type Accepted,
  type AsyncBenchOptions,
  type Rounds,
  type Scene,
} from "./accept-and-finish.ts";
import { acceptToStart, type Started } from "./accept-to-start.ts";
import { backlog } from "./backlog.ts";
import { deliver, type Delivered } from "./deliver.ts";
import { quantile } from "./closed-loop.ts";
import { monotonicMs } from "./monotonic.ts";
import { openPeer, openPlatform, openScript, openServer, Stage } from "./stage.ts";

/** All that was measured. */
export type AsyncResult = AcceptAndFinish & {
  readonly started: Rounds<Started>;
  readonly delivered: Rounds<Delivered>;
  readonly backlog: Rounds<Accepted>;
  /** Milliseconds for a small durable write (fsync) on this disk. */
  readonly syncMs: number;
};

/** Runs the benchmark; prints as it goes. Rejects when anything was not accepted or failed. */
export async function benchAsync(
  options: AsyncBenchOptions,
  print: (line: string) => void,
): Promise<AsyncResult> {
  const stage = new Stage();
  const interrupted = (): void => void stage.close().finally(() => process.exit(1));
  process.once("SIGINT", interrupted).once("SIGTERM", interrupted);
  try {
    const server = await openServer(stage);
    const ours = await openPlatform(stage, server, "slipway");
    const custom = await ours.app("bench-custom", "slipway");
    const cortex = await ours.app("bench-cortex", "slipway, cortex app");
    const appUrl = await custom.replicaUrl();
    const peers = [
      await openPeer(stage, server, { name: "graphile-worker", appUrl }),
      await openPeer(stage, server, { name: "pg-boss", appUrl }),
    ];
    const syncMs = measureSync(stage.folder);
    const scene: Scene = { server, folder: stage.folder, options, print };
    const parts = [
      { contender: custom, accepts: true, calmly: true },
      { contender: cortex, accepts: false },
      ...peers.map((contender) => ({ contender, accepts: true })),
    ];
    const started = await acceptToStart([custom, cortex, ...peers], scene);
    const rounds = await acceptAndFinish(parts, scene);
    const delivered = await deliver(custom, await openScript(stage, "receiver"), scene);
    return { ...rounds, started, delivered, backlog: await backlog(stage, scene), syncMs };
  } finally {
    process.off("SIGINT", interrupted).off("SIGTERM", interrupted);
    await stage.close();
  }
}

const syncs = 100;
const pageBytes = 8192;

/** Writes like PostgreSQL's write-ahead log. */
function measureSync(folder: string): number {
  const file = openSync(join(folder, "sync"), "w");
  try {
    const times = Array.from({ length: syncs }, () => {
      const beganMs = monotonicMs();
      // Overwrites the same position, since the log's files exist before they are written.
      writeSync(file, Buffer.alloc(pageBytes, 1), 0, pageBytes, 0);
      fdatasyncSync(file);
      return monotonicMs() - beganMs;
    });
    return quantile(times, 0.5);
  } finally {
    closeSync(file);
  }
}
