// The Docker engine of the benchmarks with containers, and the docker command line, with which our
// driver is compared.
import { runProgram } from "./child.ts";
import type { BenchApp } from "./platform.ts";

/** The engine that benchmarks use, if no other is named. */
export const defaultDockerHost = "unix:///var/run/docker.sock";

/** Runs a command of the docker command line, and returns what it printed. */
export async function docker(host: string, ...parameters: readonly string[]): Promise<string> {
  return (await runProgram(["docker", "--host", host, ...parameters])).trim();
}

/** The image that the platform has built for an app. */
export async function imageOf(host: string, { appId }: BenchApp): Promise<string> {
  return await docker(host, "image", "ls", "--quiet", `--filter=label=slipway.app=${appId}`);
}
