// The check of `slipway doctor` on the Docker engine: it builds an image of one line and runs a container of it, as a build and a
// replica would, and removes both again.
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appFields } from "@slipway/contract/app-fields.ts";
import type { Machine } from "./machine.ts";
import { plain } from "./plain-text.ts";

/** What a check has found, with what to do unless it is ok. */
export type Finding = {
  readonly state: "ok" | "warning" | "fault";
  readonly about: string;
  readonly todo?: string;
};

type Ran = { readonly isOk: boolean; readonly output: string };

const askMs = 10_000;
/** It may pull the base image first. */
const buildMs = 180_000;
const runMs = 60_000;
const reasonMax = 300;
const base = appFields.baseImage.default;

/** What is wrong with the engine, as the engine says it. */
export function dockerCheck({ environment }: Machine): Finding {
  const host = environment["SLIPWAY_DOCKER_HOST"] ?? "";
  const docker = (words: readonly string[], timeout = askMs, input = ""): Ran => {
    const options = { encoding: "utf8", timeout, input, env: { ...environment, DOCKER_BUILDKIT: "1" } } as const;
    const { status, error, stdout, stderr } = spawnSync(
      "docker",
      [...(host === "" ? [] : ["-H", host]), ...words],
      options,
    );
    const isLate = (error as NodeJS.ErrnoException | undefined)?.code === "ETIMEDOUT";
    const output = isLate ? `it did not end within ${timeout / 1000} s` : `${stdout ?? ""}${stderr ?? ""}`;
    return { isOk: status === 0, output: output.trim() };
  };
  const asked = docker(["version", "--format", "{{.Server.Version}}"]);
  if (!asked.isOk) {
    return {
      state: "warning",
      about: "no engine answers: apps run as processes, without apt and conda packages and Dockerfiles",
      todo: "To have them, see docs/guides/docker.md.",
    };
  }
  const engine = `engine ${plain(asked.output)}`;
  if (environment["SLIPWAY_DRIVER"] === "process")
    return { state: "ok", about: `${engine}, which is not used (SLIPWAY_DRIVER)` };
  const image = `slipway-doctor:${randomBytes(6).toString("hex")}`;
  const isBaseThere = docker(["image", "inspect", base]).isOk;
  try {
    const built = docker(["build", "--no-cache", "--tag", image, "-"], buildMs, `FROM ${base}\nRUN true\n`);
    if (!built.isOk) return broken(`${engine} cannot build an image: ${reasonIn(built.output)}`);
    const ran = docker(["run", "--rm", image, "true"], runMs);
    if (!ran.isOk) return broken(`${engine} builds images, but cannot run a container: ${reasonIn(ran.output)}`);
    return { state: "ok", about: `${engine} builds an image and runs a container` };
  } finally {
    docker(["image", "rm", "--force", image]);
    if (!isBaseThere) docker(["image", "rm", base]);
  }
}

function broken(about: string): Finding {
  const todo =
    "Look at the engine's log (journalctl -u docker), and restart it (systemctl restart docker). Until it works: SLIPWAY_DRIVER=process.";
  return { state: "fault", about, todo };
}

/** The cause stands at the end of the last line that says an error. */
function reasonIn(output: string): string {
  const lines = output.split("\n").filter((line) => line.trim() !== "");
  const line =
    lines.findLast((one) => /error|fail|cannot|executor/i.test(one)) ?? lines.at(-1) ?? "it does not say why";
  const cause = line.replace(/^.*(?:did not complete successfully: |\]: |response from daemon: )(?=\S)/, "");
  return plain(cause.length > reasonMax ? `…${cause.slice(-reasonMax)}` : cause);
}
