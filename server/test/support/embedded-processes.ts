// The processes of a platform's embedded database, for tests that stop, kill or overload it.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { clusterPaths, embeddedUser } from "#store/postgres/postgres-cluster.ts";
import { dataPaths } from "#config.ts";

/** The process id of the server; throws when it is not running. */
export function serverPid(dataDir: string): number {
  const { dataFolder } = clusterPaths(dataPaths(dataDir).postgresDir);
  const [pid] = readFileSync(join(dataFolder, "postmaster.pid"), "utf8").split("\n");
  return Number(pid);
}

/**
 * Suspends the server and its children (SIGSTOP), as on a stalled machine; the result resumes them.
 */
export function freezeServer(dataDir: string): () => void {
  const pids = suspended(dataDir);
  return () => {
    for (const pid of pids) signal(pid, "SIGCONT");
  };
}

/**
 * As a loss of power: none of them sees the end of another one, which would give it the other one's
 * locks.
 */
export function killServer(dataDir: string): void {
  for (const pid of suspended(dataDir)) signal(pid, "SIGKILL");
}

function suspended(dataDir: string): number[] {
  const server = serverPid(dataDir);
  process.kill(server, "SIGSTOP");
  return [server, ...childrenOf(server).filter((pid) => signal(pid, "SIGSTOP"))];
}

/** A connection as the superuser. */
export function clientOf(dataDir: string, name: string): Client {
  const { passwordFile, socketFolder } = clusterPaths(dataPaths(dataDir).postgresDir);
  const client = new Client({
    host: socketFolder,
    user: embeddedUser,
    database: "slipway",
    application_name: name,
    password: readFileSync(passwordFile, "utf8").trim(),
    connectionTimeoutMillis: 10_000,
  });
  client.on("error", () => undefined);
  return client;
}

function signal(pid: number, name: "SIGSTOP" | "SIGCONT" | "SIGKILL"): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    // It has exited in the meantime.
    return false;
  }
}

function childrenOf(parent: number): number[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      const ppid = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1];
      return Number(ppid) === parent ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}
