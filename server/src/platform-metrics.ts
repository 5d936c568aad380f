// Defines the metrics: maps the parts' counters to Prometheus names, and serves them where the
// settings say. A part of `platform.ts`. docs/guides/monitoring.md explains them to operators.
import type { ScheduledBackups } from "#backups/backup-schedule.ts";
import type { BuildQueue } from "#deploy/queue.ts";
import type { SharedDisk } from "#drivers/opened-driver.ts";
import type { Driver } from "#drivers/driver.ts";
import { freeGpus } from "#drivers/pools/choose-pool.ts";
import { errorMessage } from "#lib/error-message.ts";
import { CachedAnswer } from "#lib/cached-answer.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import type { OutwardGuard } from "#lib/outward-guard.ts";
import { readBacklog, type Backlog } from "#metrics/backlog-store.ts";
import { ListedApps } from "#metrics/listed-apps.ts";
import { Metrics, type Sample } from "#metrics/registry.ts";
import { readTableSizes } from "#metrics/table-sizes-store.ts";
import type { ReplicaUses } from "#scheduler/replica-use.ts";
import type { ReplicaUse } from "#scheduler/usage-sampler.ts";
import { serveMetrics } from "#metrics/server.ts";
import { statusClasses } from "#proxy/call-meter.ts";
import type { Certificates } from "#proxy/certificates.ts";
import type { Proxy } from "#proxy/proxy.ts";
import type { CallRecords } from "#runs/call-records.ts";
import type { Runs } from "#runs/runs.ts";
import type { Scheduler } from "#scheduler/scheduler.ts";
import type { DatabaseCounts } from "#store/database-counts.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Webhooks } from "#webhooks/webhooks.ts";
import type { Config } from "./config.ts";
import type { Health } from "./platform-health.ts";

export type MeasuredParts = {
  readonly proxy: Proxy;
  readonly scheduler: Scheduler;
  readonly queue: BuildQueue;
  readonly runs: Runs;
  readonly records: CallRecords;
  readonly webhooks: Webhooks;
  readonly disk: SharedDisk;
  readonly driver: Pick<Driver, "outage" | "pools" | "zygotes">;
  readonly replicaUses: () => Promise<ReplicaUses>;
  readonly counts: DatabaseCounts;
  readonly health: Health;
  /** Null: no backups are scheduled. */
  readonly backups: ScheduledBackups | null;
  /** Null: there is no HTTPS port. */
  readonly certificates: Pick<Certificates, "endsAtMs"> | null;
  /** Null: the platform gets no certificates by itself. */
  readonly acme: { readonly failures: number } | null;
};

type Parts = MeasuredParts &
  Pick<Foundation, "db" | "lifecycle" | "log" | "clock"> & {
    /** Gets the address of the metrics, which webhooks must not call. */
    readonly guard: Pick<OutwardGuard, "addOwnListener">;
  };

/** How long counts of waiting work are reused. */
const backlogFreshMs = 15_000;
/** How long an answer to Prometheus waits for the database. */
const databaseWaitMs = 3_000;
/** The sizes of tables are read rarely, because they grow slowly. */
const sizesFreshMs = 60_000;

/**
 * Serves metrics if they are configured. Throws `CannotStart` when the address is not available.
 */
export async function openMetrics({ metrics: config }: Config, parts: Parts): Promise<void> {
  if (config === null) return;
  const { lifecycle, log, clock, guard } = parts;
  const metrics = new Metrics({ clock });
  addMetrics(metrics, parts);
  metrics.addProcess();
  const { address, close } = await serveMetrics({ ...config, metrics, log }).catch(
    (cause: unknown) => {
      const reason = errorMessage(cause);
      throw new CannotStart(
        `Metrics cannot be served: ${reason}. Set SLIPWAY_METRICS_ADDRESS to an address of this machine and a free port, such as 127.0.0.1:9464.`,
        { cause },
      );
    },
  );
  lifecycle.onClose("metrics", close);
  guard.addOwnListener(address);
  log.info(address, "serving /metrics");
}

function addMetrics(metrics: Metrics, parts: Parts): void {
  const { health } = parts;
  metrics.gauge(
    "slipway_ready",
    "1 while calls and runs are accepted, as /readyz says.",
    async () => ((await health.notReady()) === null ? 1 : 0),
  );
  const { driver } = parts;
  metrics.gauge(
    "slipway_driver_up",
    "1 while the driver can run replicas; 0, for example, while the Docker engine does not answer.",
    () => (driver.outage() === null ? 1 : 0),
  );
  const { certificates } = parts;
  metrics.gauge(
    "slipway_tls_certificate_end_seconds",
    "When the certificate of HTTPS that ends first does so, in seconds since 1970.",
    // A metric with an empty list has no samples.
    () => {
      const endsAtMs = certificates?.endsAtMs ?? null;
      return endsAtMs === null ? [] : endsAtMs / 1000;
    },
  );
  addCalls(metrics, parts);
  addReplicas(metrics, parts);
  addReplicaUse(metrics, parts);
  addWork(metrics, parts);
  addStores(metrics, parts);
  addBackups(metrics, parts);
  const { acme } = parts;
  metrics.counter(
    "slipway_certificate_failures_total",
    "Certificates that were requested, and not issued.",
    () => acme?.failures ?? 0,
  );
}

function addBackups(metrics: Metrics, { backups }: Parts): void {
  if (backups === null) return;
  metrics.gauge(
    "slipway_backup_timestamp_seconds",
    "When the newest scheduled backup began, in seconds since 1970; 0: there is none.",
    () => (backups.lastMs ?? 0) / 1000,
  );
  metrics.counter(
    "slipway_backup_failures_total",
    "Scheduled backups that failed.",
    () => backups.failures,
  );
}

function addCalls(metrics: Metrics, { proxy, records }: Parts): void {
  const apps = new ListedApps(() => proxy.apps.meters());
  metrics.counter(
    "slipway_calls_total",
    "Calls to apps, by status class that the client received.",
    () =>
      apps.samples(({ answers, clientGoneTotal, cutTotal }) => [
        // `answers` has the counts in the order of `statusClasses`.
        ...statusClasses.map((status, index) => [{ status }, answers[index] ?? 0] as const),
        [{ status: "client_gone" }, clientGoneTotal],
        [{ status: "cut" }, cutTotal],
      ]),
  );
  metrics.counter(
    "slipway_app_call_seconds_total",
    "Total duration of answered calls of an app.",
    () => apps.each(({ durationMs }) => durationMs / 1000),
  );
  metrics.gauge("slipway_calls_running", "Calls that replicas work on.", () =>
    apps.each(({ running }) => running),
  );
  metrics.gauge(
    "slipway_calls_waiting",
    "Calls waiting in the queue of an app for a free replica.",
    () => apps.each(({ waiting }) => waiting),
  );
  metrics.histogram(
    "slipway_call_duration_seconds",
    "Time from the arrival of a call to the end of its answer, across all apps.",
    proxy.apps.times.duration,
  );
  metrics.histogram(
    "slipway_call_wait_seconds",
    "Time in the queue, for calls that had to wait and got a replica.",
    proxy.apps.times.lineWait,
  );
  metrics.counter(
    "slipway_calls_refused_total",
    "Calls refused before they reached an app or a run, by error code; without WebSockets.",
    () => byKey("code", proxy.refusals),
  );
  metrics.counter(
    "slipway_call_records_left_out_total",
    "Calls missing from the lists of runs, because too many ended at once or the database was unavailable.",
    () => records.leftOutTotal,
  );
}

function addReplicas(metrics: Metrics, { scheduler }: Parts): void {
  const { counters } = scheduler;
  metrics.gauge("slipway_replicas", "Replicas by state.", () =>
    byKey("state", Object.entries(scheduler.replicaCounts())),
  );
  metrics.counter(
    "slipway_replica_starts_total",
    "Replicas that began to start, whether or not they became ready.",
    () => counters.starts,
  );
  metrics.counter(
    "slipway_replica_ends_total",
    "Replicas that have ended, for any reason.",
    () => counters.ends,
  );
  metrics.counter(
    "slipway_replica_failures_total",
    "Replicas that did not start, crashed or became unhealthy.",
    () =>
      byKey("kind", [
        ["start", counters.startFailures],
        ["crash", counters.crashes],
        ["unhealthy", counters.unhealthy],
      ]),
  );
  metrics.histogram(
    "slipway_cold_start_seconds",
    "Time from the decision to start a replica until it is ready, for those that became ready.",
    counters.coldStarts,
  );
  metrics.gauge(
    "slipway_replica_rows_unwritten",
    "Replica changes not yet written to the database.",
    () => scheduler.unwrittenRows,
  );
}

function addReplicaUse(metrics: Metrics, { driver, replicaUses }: Parts): void {
  metrics.gauge(
    "slipway_zygotes",
    "Processes that have imported an app and wait to be forked.",
    () => driver.zygotes?.list().length ?? 0,
  );
  metrics.gauge(
    "slipway_zygote_memory_bytes",
    "Memory that zygotes hold, with what their replicas share.",
    () =>
      (driver.zygotes?.list() ?? []).reduce((sum, { memoryBytes }) => sum + (memoryBytes ?? 0), 0),
  );
  metrics.gauge(
    "slipway_gpus",
    "GPUs by pool, compute type and state; lost: one that does not answer.",
    () => gpuSamples(driver),
  );
  // One sample for each replica whose value is known.
  const useSamples = async (read: (use: ReplicaUse) => number | undefined): Promise<Sample[]> => {
    const samples: Sample[] = [];
    for (const [replica, use] of await replicaUses()) {
      const value = read(use);
      if (value !== undefined) samples.push({ labels: { replica }, value });
    }
    return samples;
  };
  metrics.counter("slipway_replica_cpu_seconds_total", "Processor time of a replica.", () =>
    useSamples(({ cpuSeconds }) => cpuSeconds),
  );
  metrics.gauge(
    "slipway_replica_memory_bytes",
    "Memory of a replica, without caches that the kernel could reclaim.",
    () => useSamples(({ memoryBytes }) => memoryBytes),
  );
  metrics.counter(
    "slipway_replica_network_receive_bytes_total",
    "Bytes that a replica received over its network.",
    () => useSamples(({ network }) => network?.receivedBytes),
  );
  metrics.counter(
    "slipway_replica_network_transmit_bytes_total",
    "Bytes that a replica sent over its network.",
    () => useSamples(({ network }) => network?.sentBytes),
  );
  metrics.gauge(
    "slipway_replica_gpu_utilization",
    "Mean utilization of a replica's GPUs, from 0 to 1.",
    () => useSamples(({ gpu }) => gpu?.utilization),
  );
  metrics.gauge("slipway_replica_gpu_memory_bytes", "Used memory of a replica's GPUs.", () =>
    useSamples(({ gpu }) => gpu?.memoryBytes),
  );
}

function gpuSamples({ pools }: Parts["driver"]): Sample[] {
  const samples: Sample[] = [];
  for (const freePool of pools.free) {
    const { name: pool, gpus } = freePool.pool;
    for (const { compute, count, usable } of gpus) {
      const free = freeGpus(freePool, compute);
      const states = { free, used: usable - free, lost: count - usable };
      for (const [state, value] of Object.entries(states)) {
        if (value !== 0) samples.push({ labels: { pool, compute, state }, value });
      }
    }
  }
  return samples;
}

function addWork(metrics: Metrics, { db, clock, queue, runs, webhooks }: Parts): void {
  const backlog = new CachedAnswer({
    freshMs: backlogFreshMs,
    waitMs: databaseWaitMs,
    clock,
    // While the database is away, the metrics that need it have no samples.
    look: () => readBacklog(db).catch(() => null),
  });
  const readFromBacklog = async (
    read: (counts: Backlog) => number | Iterable<Sample>,
  ): Promise<number | Iterable<Sample>> => {
    const counts = await backlog.get();
    return counts === null ? [] : read(counts);
  };
  metrics.gauge(
    "slipway_runs",
    "Async runs that have not ended, by state; at most 100,000 of each are counted.",
    () => readFromBacklog((counts) => byKey("state", Object.entries(counts.runs))),
  );
  metrics.counter(
    "slipway_runs_accepted_total",
    "Async runs accepted.",
    () => runs.counts.accepted,
  );
  metrics.counter("slipway_runs_ended_total", "Async runs ended, by state.", () =>
    byKey("state", runs.counts.ended),
  );
  metrics.gauge("slipway_builds_waiting", "Builds waiting.", () =>
    readFromBacklog(({ builds }) => builds),
  );
  metrics.gauge("slipway_builds_running", "Builds running.", () => queue.runningCount);
  metrics.counter("slipway_builds_total", "Builds ended, by result.", () =>
    byKey("result", queue.ended),
  );
  metrics.histogram(
    "slipway_build_duration_seconds",
    "Time from the start of a build to its end.",
    queue.durations,
  );
  metrics.gauge(
    "slipway_webhook_deliveries_waiting",
    "Deliveries waiting; at most 100,000 are counted.",
    () => readFromBacklog(({ deliveries }) => deliveries),
  );
  metrics.gauge(
    "slipway_webhook_deliveries_running",
    "Deliveries running.",
    () => webhooks.underWay,
  );
  metrics.counter("slipway_webhook_attempts_total", "Delivery attempts, by result.", () => {
    const { attempts } = webhooks;
    return byKey("result", [
      ["delivered", attempts.get("delivered") ?? 0],
      // After an attempt that is to be retried, the delivery is pending again.
      ["retry", attempts.get("pending") ?? 0],
      ["failed", attempts.get("failed") ?? 0],
    ]);
  });
  metrics.counter(
    "slipway_webhook_answers_lost_total",
    "Answers of plain calls that never became deliveries, because too many were waiting or the database was unavailable.",
    () => webhooks.outbox.lostCount,
  );
}

function addStores(metrics: Metrics, { db, clock, counts, disk }: Parts): void {
  const sizes = new CachedAnswer({
    freshMs: sizesFreshMs,
    waitMs: databaseWaitMs,
    clock,
    look: () => readTableSizes(db).catch(() => new Map<string, number>()),
  });
  metrics.gauge(
    "slipway_database_table_bytes",
    "Size of a table of the database with its indexes.",
    async () => byKey("table", (await sizes.get()) ?? []),
  );
  metrics.gauge("slipway_database_connections", "Connections to the database, by state.", () => {
    const { used, idle } = counts.sizes;
    return byKey("state", Object.entries({ used, idle }));
  });
  metrics.gauge(
    "slipway_database_waiting",
    "Requests waiting for a database connection.",
    () => counts.sizes.waiting,
  );
  metrics.histogram(
    "slipway_database_wait_seconds",
    "Time to get a database connection.",
    counts.waits,
  );
  metrics.counter(
    "slipway_database_errors_total",
    "Failed statements by class of SQLSTATE, and lost connections.",
    () => byKey("class", counts.errors),
  );
  metrics.gauge(
    "slipway_disk_free_bytes",
    "Free disk space for the data folder.",
    () => disk.freeSpace.bytes,
  );
  metrics.gauge(
    "slipway_disk_reserve_bytes",
    "Reserved disk space: with less free space nothing is built, with less than a quarter of it nothing is started.",
    () => disk.freeSpace.reserveBytes,
  );
}

function byKey(label: string, counts: Iterable<readonly [string, number]>): Sample[] {
  return Array.from(counts, ([key, value]) => ({ labels: { [label]: key }, value }));
}
