// A Docker engine for tests. The runner starts one for all files when the first of them asks for
// it, with the image debian:bookworm-slim, and ends it after the last (tools/testing/engine.ts). A
// test removes its containers and networks itself.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { json } from "node:stream/consumers";
import type { IncomingMessage } from "node:http";
import { cleanLast, type WithAfter } from "./clean-last.ts";
import { runDocker, type Engine } from "./dockerd.ts";
import { temporaryFolder } from "./folder.ts";

/** The variable in which the runner passes the socket of its engine service to test files. */
export const engineServiceVariable = "SLIPWAY_TEST_ENGINE";

/** The image that each engine has: Debian with Python 3.11 and the machine's certificates. */
export const baseImage = "debian:bookworm-slim";

/**
 * What the runner answers: the engine, or why there is none, and whether tests are to fail then.
 */
export type EngineAnswer = Engine | { readonly reason: string; readonly isDemanded: boolean };

/** The first answer may have to wait for the base image, which is made once per checkout. */
const answerWaitMs = 280_000;

let answer: Promise<EngineAnswer> | undefined;

/**
 * False when there is an engine, else the reason to skip: not every machine lets one start. A
 * complete run demands it.
 */
export async function noEngine(): Promise<string | false> {
  const found = await ask();
  if (!("reason" in found)) return false;
  if (found.isDemanded) throw new Error(`no Docker engine: ${found.reason}`);
  return `no Docker engine: ${found.reason}`;
}

/** The engine of this run. */
export async function openEngine(): Promise<Engine> {
  const found = await ask();
  if ("reason" in found) throw new Error(found.reason);
  return found;
}

function ask(): Promise<EngineAnswer> {
  return (answer ??= askRunner(process.env[engineServiceVariable]));
}

async function askRunner(socketPath: string | undefined): Promise<EngineAnswer> {
  if (socketPath === undefined)
    return { reason: "this was not started by npm test", isDemanded: false };
  const asked = request({ socketPath, path: "/", timeout: answerWaitMs, agent: false }).end();
  asked.on("timeout", () =>
    asked.destroy(new Error("the runner does not say where its engine is")),
  );
  const [answered] = (await once(asked, "response")) as [IncomingMessage];
  return (await json(answered)) as EngineAnswer;
}

/**
 * A local image of the test's own: the base image with the file /opt/marker, which contains `text`.
 * It is removed after the test.
 */
export function makeBase(t: WithAfter, engine: Engine, text: string): string {
  const name = `slipway-test-${randomBytes(6).toString("hex")}`;
  const id = runDocker(
    engine,
    "run",
    "--detach",
    baseImage,
    "sh",
    "-c",
    `echo ${text} > /opt/marker`,
  );
  try {
    runDocker(engine, "wait", id);
    runDocker(engine, "commit", id, name);
  } finally {
    runDocker(engine, "rm", "--force", id);
  }
  cleanLast(t, () => void runDocker(engine, "image", "rm", "--force", name));
  return name;
}

/** A registry that asks for this name and password. */
export type TestRegistry = {
  /** With its port; engines of this machine may use it without TLS. */
  readonly host: string;
  readonly username: string;
  readonly password: string;
  /**
   * Pushes a local image as `name`, with the right password; returns its name there with its
   * digest.
   */
  push(engine: Engine, image: string, name: string): string;
};

const username = "reader";
const password = "sesame-5dK2-registry";
/** With bcrypt, the only form that the registry reads. */
const passwordHash = "$2y$05$abcdefghijklmnopqrstuujtCkrHK4nN2EXhovKXm.hAqky3c5CNa";

/** Starts Debian's registry on a free port. It ends after the test. */
export async function openRegistry(t: WithAfter): Promise<TestRegistry> {
  const folder = temporaryFolder(t, "registry");
  writeFileSync(join(folder, "passwords"), `${username}:${passwordHash}\n`);
  const config = {
    version: "0.1",
    log: { level: "info", formatter: "json" },
    storage: { filesystem: { rootdirectory: join(folder, "images") } },
    http: { addr: "127.0.0.1:0" },
    auth: { htpasswd: { realm: "test", path: join(folder, "passwords") } },
  };
  // JSON is YAML.
  writeFileSync(join(folder, "config.yml"), JSON.stringify(config));
  const child = spawn("docker-registry", ["serve", join(folder, "config.yml")], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  cleanLast(t, async () => {
    if (child.exitCode !== null) return;
    child.kill();
    await once(child, "exit");
  });
  const host = await new Promise<string>((resolve, reject) => {
    child.on("exit", () => reject(new Error("the registry ended")));
    createInterface({ input: child.stderr }).on("line", (line) => {
      const [, found] = /listening on (127\.0\.0\.1:\d+)/.exec(line) ?? [];
      if (found !== undefined) resolve(found);
    });
  });
  return {
    host,
    username,
    password,
    push: (engine, image, name) =>
      push({ engine, image, reference: `${host}/${name}`, folder, host }),
  };
}

function push({
  engine,
  image,
  reference,
  folder,
  host,
}: {
  readonly engine: Engine;
  readonly image: string;
  readonly reference: string;
  readonly folder: string;
  readonly host: string;
}): string {
  const config = join(folder, "client");
  mkdirSync(config, { recursive: true, mode: 0o700 });
  const auth = Buffer.from(`${username}:${password}`).toString("base64");
  writeFileSync(join(config, "config.json"), JSON.stringify({ auths: { [host]: { auth } } }));
  runDocker(engine, "tag", image, reference);
  try {
    const said = runDocker(engine, "--config", config, "push", reference);
    return `${reference}@${/digest: (sha256:[0-9a-f]{64})/.exec(said)?.[1] ?? ""}`;
  } finally {
    runDocker(engine, "rmi", reference);
  }
}
