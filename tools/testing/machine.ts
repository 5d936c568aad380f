// What suites need from the machine besides Node.js. As root on Debian it is installed; elsewhere
// the suites that need it skip themselves, and this reports it beforehand.
import { spawnSync } from "node:child_process";

type Need = {
  readonly name: string;
  readonly probe: readonly string[];
  readonly packages: readonly string[];
  readonly use: string;
  /** A complete run fails without it. */
  readonly isDemanded?: true;
};

const needs: readonly Need[] = [
  {
    name: "git",
    probe: ["git", "--version"],
    packages: ["git", "ca-certificates"],
    use: "suites that clone repositories",
  },
  {
    name: "python3 with venv",
    probe: ["python3", "-c", "import venv, ensurepip"],
    packages: ["python3", "python3-venv"],
    use: "suites that run apps",
    isDemanded: true,
  },
  {
    name: "ip and nft",
    probe: [
      "sh",
      "-c",
      "PATH=$PATH:/usr/sbin:/sbin; command -v ip && command -v nft && command -v nsenter",
    ],
    packages: ["iproute2", "nftables"],
    use: "suites of networks that replicas have for themselves",
  },
  {
    name: "Chromium",
    probe: [
      "sh",
      "-c",
      "chromium-headless-shell --version || chromium --version || google-chrome --version",
    ],
    packages: ["chromium-headless-shell"],
    use: "suites that look at pages in a browser",
    isDemanded: true,
  },
  {
    name: "a Docker engine",
    probe: [
      "sh",
      "-c",
      "PATH=/usr/sbin:/usr/bin:/sbin:/bin; command -v dockerd && command -v docker-registry && command -v mmdebstrap",
    ],
    packages: ["docker.io", "docker-registry", "mmdebstrap"],
    use: "suites of containers and images",
    isDemanded: true,
  },
  {
    name: "libfaketime",
    probe: ["sh", "-c", "ls /usr/lib/*/faketime/libfaketimeMT.so.1"],
    packages: ["faketime"],
    use: "suites that move the clock under a platform",
  },
];

/** The deadline of one command of the package manager. */
const installWaitMs = 300_000;

/**
 * Installs what is missing, if allowed, and prints one line for each thing that it installed or
 * could not install. Returns the names of missing things that a complete run requires.
 */
export function prepareMachine(print: (line: string) => void): string[] {
  const missing = needs.filter((need) => !isThere(need));
  if (missing.length === 0) return [];
  const names = missing.map(({ name }) => name).join(", ");
  const obstacle = installObstacle();
  if (obstacle === null) {
    print(`Installing ${names} with apt-get …`);
    install(missing.map(({ packages }) => packages));
  }
  const left = missing.filter((one) => !isThere(one));
  for (const need of left) {
    print(
      `${need.name} is missing${obstacle === null ? "" : ` and was not installed (${obstacle})`}: ${need.use} are skipped.`,
    );
  }
  return left.filter(({ isDemanded }) => isDemanded).map(({ name }) => name);
}

function isThere({ probe: [command = "", ...parameters] }: Need): boolean {
  return spawnSync(command, parameters, { stdio: "ignore", timeout: 20_000 }).status === 0;
}

function installObstacle(): string | null {
  if (process.getuid?.() !== 0) return "this user is not root";
  if (spawnSync("apt-get", ["--version"], { stdio: "ignore" }).status !== 0)
    return "there is no apt-get";
  return null;
}

/** One after the other: a package that this Debian does not have must not prevent the others. */
function install(needed: readonly (readonly string[])[]): void {
  const options = {
    stdio: "ignore",
    timeout: installWaitMs,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  } as const;
  spawnSync("apt-get", ["update"], options);
  for (const packages of needed) {
    spawnSync("apt-get", ["install", "-y", "--no-install-recommends", ...packages], options);
  }
}
