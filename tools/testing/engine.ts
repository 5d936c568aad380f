// The Docker engine of a test run: started when the first test file asks for it, shared by all
// files, ended after the last.
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, renameSync } from "node:fs";
import { createServer } from "node:http";
import { arch } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { baseImage, type EngineAnswer } from "@slipway/server/test/support/docker-engine.ts";
import {
  engineObstacle,
  runDocker,
  startEngine,
  type StartedEngine,
} from "@slipway/server/test/support/dockerd.ts";
import { projectDir } from "#tidy/tree.ts";

/** Answers test files on a socket. */
export type EngineService = {
  readonly socketPath: string;
  /**
   * Ends the engine, if it was started; returns one line for each thing that tests left on it. May
   * be called twice.
   */
  stop(): Promise<string[]>;
};

/** The timeout for the image, whose packages are downloaded. */
const imageWaitMs = 240_000;

type EngineServiceOptions = {
  /** It starts now, so that no test file waits long for it. */
  readonly isEager: boolean;
  /** Tests that need it fail without it. */
  readonly isDemanded: boolean;
};

/** Listens in the folder, where the engine will be too. */
export async function startEngineService(
  folder: string,
  { isEager, isDemanded }: EngineServiceOptions,
): Promise<EngineService> {
  const socketPath = join(folder, "service.sock");
  let starting: Promise<StartedEngine> | undefined;
  const answer = async (): Promise<EngineAnswer> => {
    const reason = engineObstacle();
    if (reason !== false) return { reason, isDemanded };
    try {
      return await (starting ??= start(join(folder, "engine")));
    } catch (error) {
      return { reason: error instanceof Error ? error.message : String(error), isDemanded };
    }
  };
  const server = createServer((_request, response) => {
    void answer().then((found) =>
      response.setHeader("connection", "close").end(JSON.stringify(found)),
    );
  });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  if (isEager) void answer();
  const stop = async (): Promise<string[]> => {
    server.close();
    const engine = await starting?.catch(() => undefined);
    starting = undefined;
    const left = engine === undefined ? [] : leftOn(engine);
    await engine?.stop();
    return left;
  };
  return { socketPath, stop };
}

/** An engine that was ended from outside cannot be asked. */
function leftOn(engine: StartedEngine): string[] {
  try {
    return engine.left();
  } catch (error) {
    return [`what is on the Docker engine, which no longer answers: ${String(error)}`];
  }
}

async function start(folder: string): Promise<StartedEngine> {
  const file = await makeBaseImage();
  const engine = await startEngine(folder);
  try {
    runDocker(engine, "import", "--change", 'CMD ["bash"]', file, baseImage);
    return engine;
  } catch (error) {
    await engine.stop();
    throw error;
  }
}

/**
 * As much of Debian as its image has, and Python: no registry can be asked for the image itself.
 * Made once per checkout.
 */
async function makeBaseImage(): Promise<string> {
  const folder = join(projectDir, "node_modules/.cache/images");
  const file = join(folder, `bookworm-python-${arch()}.tar`);
  if (existsSync(file)) return file;
  mkdirSync(folder, { recursive: true });
  const certificates = "/etc/ssl/certs/ca-certificates.crt";
  const left = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*"];
  const options = [
    "--variant=minbase",
    "--include=python3,python3-venv,ca-certificates",
    ...left.map((path) => `--dpkgopt=path-exclude=${path}`),
    ...(existsSync(certificates)
      ? [`--customize-hook=copy-in ${certificates} /etc/ssl/certs/`]
      : []),
  ];
  const partial = `${file}.${process.pid}.tar`;
  await promisify(execFile)("mmdebstrap", [...options, "bookworm", partial], {
    timeout: imageWaitMs,
  });
  renameSync(partial, file);
  return file;
}
