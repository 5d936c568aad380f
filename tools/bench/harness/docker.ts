// The Docker engine of the benchmarks with containers: as a setting of a platform, and as the
// docker command line uses it.
import { runProgram } from "./child.ts";
import type { BenchApp } from "./platform.ts";

/** The engine that benchmarks use, if no other is named. */
export const defaultDockerHost = "unix:///var/run/docker.sock";

/** The settings of a platform that uses this engine. */
export function dockerSettings(host: string): Record<string, string> {
  return { SLIPWAY_DRIVER: "docker", SLIPWAY_DOCKER_HOST: host };
}

/** Runs a command of the docker command line, and returns what it printed. */
export async function docker(host: string, ...parameters: readonly string[]): Promise<string> {
  return (await runProgram(["docker", "--host", host, ...parameters])).trim();
}

/** The image that the platform has built for an app. */
export async function imageOf(host: string, { appId }: BenchApp): Promise<string> {
  return await docker(host, "image", "ls", "--quiet", `--filter=label=slipway.app=${appId}`);
}
