// The check of `slipway doctor` on the Docker engine: it builds an image of one line and runs a
// container of it in a network of its own, as a build and a replica would, and removes all three
// again.
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appFields } from "@slipway/contract/app-fields.ts";
import { findClient } from "@slipway/server/src/drivers/docker/docker-client.ts";
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
/** The timeout of the build, which may pull the base image first. */
const buildMs = 180_000;
const runMs = 60_000;
const reasonMax = 300;
const untilThen = "Until it works: SLIPWAY_DRIVER=process.";
const base = appFields.baseImage.default;

/** What is wrong with the engine, or with the client that builds, as they say it. */
export async function dockerCheck({ environment }: Machine): Promise<Finding> {
  const host = environment["SLIPWAY_DOCKER_HOST"] ?? "";
  const given: NodeJS.ProcessEnv = { ...environment, DOCKER_BUILDKIT: "1" };
  if (host !== "") given["DOCKER_HOST"] = host;
  // As the platform does: the first client of the PATH may lack what it needs to build.
  const client = await findClient({
    PATH: environment["PATH"] ?? "",
    HOME: environment["HOME"] ?? "",
  });
  const program = client.ok ? client.program : "docker";
  const docker = (words: readonly string[], timeout = askMs, input = ""): Ran =>
    run(program, words, { timeout, input, env: given });
  const asked = docker(["version", "--format", "{{.Server.Version}}"]);
  if (!asked.isOk) {
    return {
      state: "warning",
      about:
        "no engine answers: apps run as processes, without apt and conda packages and Dockerfiles",
      todo: "To have them, see docs/guides/docker.md.",
    };
  }
  const engine = `engine ${plain(asked.output)}`;
  if (environment["SLIPWAY_DRIVER"] === "process")
    return { state: "ok", about: `${engine}, which is not used (SLIPWAY_DRIVER)` };
  if (!client.ok) {
    const todo = `Install the plugin (package docker-buildx or docker-buildx-plugin). ${untilThen}`;
    return { state: "fault", about: `${engine} answers, but ${plain(client.reason)}`, todo };
  }
  return tryEngine(engine, docker, client.build);
}

/** Builds an image, and runs it in a network of its own, as apps have one. */
function tryEngine(
  engine: string,
  docker: (words: readonly string[], timeout?: number, input?: string) => Ran,
  build: readonly string[],
): Finding {
  const name = `slipway-doctor-${randomBytes(6).toString("hex")}`;
  const isBaseThere = docker(["image", "inspect", base]).isOk;
  try {
    const loading = build[0] === "buildx" ? ["--load"] : [];
    const words = [...build, ...loading, "--no-cache", "--tag", name, "-"];
    const built = docker(words, buildMs, `FROM ${base}\nRUN true\n`);
    if (!built.isOk) return broken(`${engine} cannot build an image: ${reasonIn(built.output)}`);
    const connected = docker(["network", "create", name]);
    if (!connected.isOk) {
      return broken(
        `${engine} builds images, but cannot make a network: ${reasonIn(connected.output)}`,
      );
    }
    const ran = docker(["run", "--rm", "--network", name, name, "true"], runMs);
    if (!ran.isOk)
      return broken(`${engine} builds images, but cannot run a container: ${reasonIn(ran.output)}`);
    return { state: "ok", about: `${engine} builds an image and runs a container` };
  } finally {
    docker(["network", "rm", name]);
    docker(["image", "rm", "--force", name]);
    if (!isBaseThere) docker(["image", "rm", base]);
  }
}

function run(
  program: string,
  words: readonly string[],
  options: { readonly timeout: number; readonly input: string; readonly env: NodeJS.ProcessEnv },
): Ran {
  const { status, error, stdout, stderr } = spawnSync(program, words, {
    ...options,
    encoding: "utf8",
  });
  const isLate = (error as NodeJS.ErrnoException | undefined)?.code === "ETIMEDOUT";
  const output = isLate
    ? `it did not end within ${options.timeout / 1000} s`
    : `${stdout ?? ""}${stderr ?? ""}`;
  return { isOk: status === 0, output: output.trim() };
}

function broken(about: string): Finding {
  const todo = `Look at the engine's log (journalctl -u docker), and restart it (systemctl restart docker). ${untilThen}`;
  return { state: "fault", about, todo };
}

/** The cause stands at the end of the last line that says an error. */
function reasonIn(output: string): string {
  const lines = output.split("\n").filter((line) => line.trim() !== "");
  const line =
    lines.findLast((one) => /error|fail|cannot|executor/i.test(one)) ??
    lines.at(-1) ??
    "it does not say why";
  const cause = line.replace(
    /^.*(?:did not complete successfully: |\]: |response from daemon: )(?=\S)/,
    "",
  );
  return plain(cause.length > reasonMax ? `…${cause.slice(-reasonMax)}` : cause);
}
