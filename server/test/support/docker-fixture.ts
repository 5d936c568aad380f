// Containers for tests of the Docker driver, on the engine of the test run, and a check for what
// remains of them there.
import { readdirSync, mkdirSync, writeFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { join } from "node:path";
import type { Network, NetworkCreateOptions } from "dockerode";
import type { Address, Artifact, Driver, ReplicaSpec } from "#drivers/driver.ts";
import { installationOf, type Firewall } from "#drivers/app-firewall.ts";
import { sameFiles } from "#drivers/docker/own-container.ts";
import { bridges } from "#drivers/docker/app-networks.ts";
import { containerName } from "#drivers/docker/container-spec.ts";
import { keyedNames } from "#drivers/docker/keyed-names.ts";
import type { ImageRegistry } from "#drivers/docker/pull-image.ts";
import { DockerDriver } from "#drivers/docker/driver.ts";
import { connectEngine, type Engine } from "#drivers/docker/engine.ts";
import { projectUser } from "#drivers/project-user.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import type { Behaviour, ConformanceFixture } from "./driver-conformance.ts";
import { diskWatch } from "./disk-watch.ts";
import { baseImage, openEngine } from "./docker-engine.ts";
import { runDocker, tracedRuntime, type Engine as TestEngine } from "./dockerd.ts";
import { makeFolder, removeFolder } from "./folder.ts";
import { widePlacement } from "./wide-placement.ts";
import { replicaSpec } from "./replica-spec.ts";
import { until } from "./until.ts";

/** Behaves as its argument says (see `Behaviour`). */
const program = `
import json, os, signal, socket, sys
behaviour = json.loads(sys.argv[1])
for line in behaviour.get("lines", []): print(line, flush=True)
if behaviour["kind"] == "exits":
    with open("/persistent-storage/" + behaviour["file"], "rb") as file: sys.stdout.buffer.write(file.read())
    sys.stdout.flush()
    os._exit(behaviour["exitCode"])
wake, waker = socket.socketpair()
ignores = behaviour["kind"] == "ignores_stop"
signal.signal(signal.SIGTERM, signal.SIG_IGN if ignores else lambda *_: waker.send(b"x"))
server = socket.create_server(("0.0.0.0", int(os.environ["PORT"])))
wake.recv(1)
`;

const noChain = "No chain/target/match by that name";

/**
 * An engine that another test starts makes the chains of all engines of the machine anew: for a
 * moment a network finds none. Only tests have several engines.
 */
function waitForChains({ calls }: Engine): void {
  const create = calls.createNetwork.bind(calls) as (
    given: NetworkCreateOptions,
  ) => Promise<Network>;
  const createWhenPossible = async (given: NetworkCreateOptions): Promise<Network> => {
    const [made] = await until("the engine's chains are there", async () => {
      const [done] = await Promise.allSettled([create(given)]);
      const isTooEarly = done.status === "rejected" && String(done.reason).includes(noChain);
      return isTooEarly ? null : [done];
    });
    if (made?.status !== "fulfilled") throw made?.reason;
    return made.value;
  };
  calls.createNetwork = createWhenPossible as typeof calls.createNetwork;
}

/** What the machine's firewall lets apps reach. */
type AppRules = Pick<Firewall, "allowed" | "nameServers" | "platform">;

/** One data folder and one instance in the engine; `close` removes both. */
export class DockerFixture implements ConformanceFixture {
  readonly dataDir: string;
  readonly installationId: string;
  readonly #engine: Engine;
  readonly #at: TestEngine;
  readonly #image: string;
  readonly #registry: ImageRegistry | null;
  readonly #firewall: Firewall | null;
  #files = 0;

  /** `engine`: instead of the one of the test run. */
  static async open(
    given: {
      readonly firewall?: AppRules;
      readonly engine?: TestEngine;
      readonly registry?: ImageRegistry;
    } = {},
  ): Promise<DockerFixture> {
    const at = given.engine ?? (await openEngine());
    const engine = await connectEngine(at.socketPath);
    waitForChains(engine);
    const { Id } = await engine.calls.getImage(baseImage).inspect();
    return new DockerFixture({
      engine,
      at,
      image: Id,
      rules: given.firewall ?? null,
      registry: given.registry ?? null,
    });
  }

  readonly #key = randomBytes(32);

  private constructor(given: {
    readonly engine: Engine;
    readonly at: TestEngine;
    readonly image: string;
    readonly rules: AppRules | null;
    readonly registry: ImageRegistry | null;
  }) {
    this.#engine = given.engine;
    this.#at = given.at;
    this.#image = given.image;
    this.#registry = given.registry;
    this.dataDir = makeFolder("containers");
    const installation = installationOf(this.dataDir);
    this.#firewall =
      given.rules === null
        ? null
        : { ...given.rules, installation, links: bridges, egress: new Map(), buildBridge: null };
    this.installationId = `test-${randomBytes(6).toString("hex")}`;
  }

  get storageDir(): string {
    return join(this.dataDir, "storage");
  }

  driver({ disk = diskWatch(this.dataDir) } = {}): Driver {
    return new DockerDriver({
      disk,
      installationId: this.installationId,
      engine: this.#engine,
      installation: installationOf(this.dataDir),
      names: keyedNames(this.#key),
      containersDir: join(this.dataDir, "containers"),
      storageDir: this.storageDir,
      mountedStorageDir: this.storageDir,
      machine: sameFiles,
      // An earlier process of the platform knew what apps may reach.
      firewall: this.#firewall && { ...this.#firewall, egress: new Map() },
      placement: widePlacement(),
      clock: systemClock,
      log: silentLog,
      runtimes: { v1: tracedRuntime, v2: "not-there" },
      registry: this.#registry,
    });
  }

  artifact(given: { readonly image?: string; readonly reference?: string } = {}): Artifact {
    const user = projectUser("p-0123abcd" as ProjectId);
    return {
      kind: "docker",
      image: this.#image,
      reference: null,
      user,
      pythonVersion: null,
      takesRootPath: false,
      exposedPort: null,
      ...given,
    };
  }

  spec(behaviour: Behaviour): ReplicaSpec {
    const common = { runtime: "custom", memoryGb: 0.25 } as const;
    if (behaviour.kind === "refused") {
      return replicaSpec({
        ...common,
        artifact: this.artifact({ image: `sha256:${"0".repeat(64)}` }),
      });
    }
    const spec = replicaSpec({ ...common, artifact: this.artifact() });
    const told: Record<string, unknown> = { ...behaviour };
    if (behaviour.kind === "exits") {
      told["file"] = `output-${this.#files++}`;
      delete told["output"];
      const folder = join(this.storageDir, spec.storage);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, String(told["file"])), behaviour.output);
    }
    return { ...spec, entrypoint: ["python3", "-c", program, JSON.stringify(told)] };
  }

  isReady(address: Address): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect(address, () => {
        socket.destroy();
        resolve(true);
      });
      socket.on("error", () => resolve(false));
    });
  }

  async remains(): Promise<readonly string[]> {
    const containers = await this.#engine.calls.listContainers({
      all: true,
      filters: this.#ours(),
    });
    const kept = readdirSync(join(this.dataDir, "containers"));
    return [
      ...containers.map(({ Names }) => `container ${Names[0]}`),
      ...kept.map((name) => `file ${name}`),
    ];
  }

  async close(): Promise<void> {
    for (const { Id } of await this.#engine.calls.listContainers({
      all: true,
      filters: this.#ours(),
    }))
      await this.#engine.calls.getContainer(Id).remove({ force: true });
    for (const { Id } of await this.#engine.calls.listNetworks({ filters: this.#ours() }))
      await this.#engine.calls.getNetwork(Id).remove();
    removeFolder(this.dataDir);
  }

  /** Somebody uses the engine beside the platform. */
  docker(...parameters: readonly string[]): string {
    return runDocker(this.#at, ...parameters);
  }

  /** The name of its container. */
  nameOf({ replicaId }: Pick<ReplicaSpec, "replicaId">): string {
    return containerName(this.installationId, replicaId);
  }

  /** A program in Python with the image and the memory of other replicas. */
  python(code: string, given: Partial<ReplicaSpec> = {}): ReplicaSpec {
    const entrypoint = ["python3", "-u", "-c", code];
    return replicaSpec({
      runtime: "custom",
      memoryGb: 0.25,
      artifact: this.artifact(),
      entrypoint,
      ...given,
    });
  }

  #ours() {
    return { label: [`slipway.instance=${this.installationId}`] };
  }
}
