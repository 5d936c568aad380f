// What the steps of image builds reach, on a Docker engine of its own: its default bridge is closed
// to all containers there.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { test } from "node:test";
import { removeFirewall } from "#drivers/app-firewall-machine.ts";
import { firewallTableOf, installationOf } from "#drivers/app-firewall.ts";
import { bridges, defaultBridge } from "#drivers/docker/app-networks.ts";
import { connectEngine } from "#drivers/docker/engine.ts";
import { cleanLast } from "#test/support/clean-last.ts";
import { baseImage, noEngine } from "#test/support/docker-engine.ts";
import { runDocker } from "#test/support/dockerd.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startPlatformOnTestServer } from "#test/support/platform-on-test-server.ts";
import { imageBuilds, type ImageBuilds } from "#test/support/image-builds.ts";
import { startOwnEngine } from "#test/support/own-engine.ts";
import { openLanHost } from "#test/support/lan-host.ts";

const noRules =
  spawnSync("nft", ["list", "tables"]).status === 0 ? false : "this needs root and nft";
const skip = (await noEngine()) || noRules;

type Targets = Readonly<Record<string, readonly [kind: string, host: string, port: number]>>;

/** The names of the targets that a step reaches. */
async function reached(builds: ImageBuilds, targets: Targets): Promise<string[]> {
  const step = `import concurrent.futures, json, socket
def reach(name, kind, host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as client:
        try:
            client.settimeout(3)
            client.connect((host, port))
            client.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            return name if client.recv(100) else None
        except OSError:
            return None
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    print("REACHED", *filter(None, pool.map(lambda one: reach(*one), json.loads('''${JSON.stringify(Object.entries(targets).map(([name, target]) => [name, ...target]))}'''))))
`;
  const lines: string[] = [];
  const files = {
    Dockerfile: `FROM ${baseImage}\nCOPY step.py .\nRUN python3 step.py\nCMD ["true"]\n`,
    "step.py": step,
  };
  await builds.build(files, {
    plan: { runtime: "custom", dockerfilePath: "Dockerfile", startsClean: true },
    lines,
  });
  return (/REACHED(.*)/.exec(lines.join("\n"))?.[1] ?? "").split(" ").filter(Boolean);
}

test(
  "steps of builds reach the internet, but neither the machine nor private networks where they are closed",
  { skip },
  async (t) => {
    const { current: engine } = await startOwnEngine(t, { isLocal: false });

    const service = createServer((socket) =>
      socket.on("error", () => undefined).end("service"),
    ).listen(0, "0.0.0.0");
    await once(service, "listening");
    cleanLast(t, () => void service.close());
    const hosts = [];
    for (const net of ["203.0.113", undefined, "169.254.77"]) {
      const host = await openLanHost(net);
      cleanLast(t, () => host.close());
      hosts.push(host);
    }
    const [internet, lan, metadata] = hosts;
    assert.ok(internet !== undefined && lan !== undefined && metadata !== undefined);
    const { port } = service.address() as AddressInfo;
    const own = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
    const address =
      own.find(({ internal, family }) => !internal && family === "IPv4")?.address ??
      engine.hostAddress;
    const id = runDocker(
      engine,
      "run",
      "--detach",
      baseImage,
      "python3",
      "-m",
      "http.server",
      "8000",
    );
    const neighbour = runDocker(engine, "inspect", "--format={{.NetworkSettings.IPAddress}}", id);
    const targets: Targets = {
      internet: ["tcp", internet.host, internet.port],
      names: ["udp", lan.host, 53],
      lan: ["tcp", lan.host, lan.port],
      metadata: ["tcp", metadata.host, metadata.port],
      gateway: ["tcp", engine.hostAddress, port],
      machine: ["tcp", address, port],
      neighbour: ["tcp", neighbour, 8000],
    };
    const all = Object.keys(targets);
    assert.deepEqual(await reached(imageBuilds(t, engine), targets), all, "the attempts are real");

    const buildBridge = await defaultBridge(await connectEngine(engine.socketPath));
    assert.ok(buildBridge !== null);
    const rules = {
      allowed: [],
      nameServers: [lan.host],
      egress: new Map(),
      buildBridge,
      platform: null,
    };
    const firewall = { installation: installationOf(temporaryFolder(t)), links: bridges, ...rules };
    cleanLast(t, () => removeFirewall(firewall));
    const closed = imageBuilds(t, engine, { firewall });
    assert.deepEqual(await reached(closed, targets), ["internet", "names"]);
    execFileSync("nft", ["delete", "table", "inet", firewallTableOf(firewall)]);
    assert.deepEqual(
      await reached(closed, targets),
      ["internet", "names"],
      "a build sets the rules that are gone",
    );
    // What the operator opens for apps is open to builds.
    await removeFirewall(firewall);
    const opened = imageBuilds(t, engine, { firewall: { ...firewall, allowed: [lan.host] } });
    assert.deepEqual(await reached(opened, targets), ["internet", "names", "lan"]);
    await removeFirewall(firewall);

    const platform = await startPlatformOnTestServer(t, {
      SLIPWAY_DRIVER: "docker",
      SLIPWAY_DOCKER_HOST: engine.dockerHost,
      SLIPWAY_DOCKER_BUILD_NETWORK: "closed",
    });
    const table = `slipway_${installationOf(platform.dataDir)}`;
    assert.match(
      execFileSync("nft", ["list", "map", "inet", table, "egress"], { encoding: "utf8" }),
      new RegExp(buildBridge),
    );
    assert.deepEqual(
      await reached(imageBuilds(t, engine), targets),
      ["internet"],
      "the platform has closed it",
    );
    assert.equal(
      (await fetch(`http://${neighbour}:8000/`)).status,
      200,
      "the machine still reaches containers",
    );
  },
);
