// The files that `slipway init` writes: a commented `slipway.toml`, and a `main.py` to begin with.
// Pure.
import type { AppKind, FoundApp } from "./app-kind.ts";

/** An app that can be deployed. */
export type DeployableApp = FoundApp & {
  readonly kind: Exclude<AppKind, { readonly kind: "none" }>;
};

/** The settings file of an app. `pythonVersion`: such as `3.12`; null: the platform's default. */
export function tomlFor(name: string, found: DeployableApp, pythonVersion: string | null): string {
  const { kind } = found;
  return [
    head(name, kind, pythonVersion),
    scaling,
    ...(kind.kind === "cortex" ? [] : [customRuntime(kind)]),
    dependencies([...found.packages, ...unlisted(found)]),
  ].join("\n");
}

/**
 * What the app needs and lists nowhere. Packages in the TOML file would keep the platform from
 * reading requirements.txt.
 */
function unlisted({ kind, packages, hasRequirements }: DeployableApp): readonly string[] {
  if (hasRequirements || kind.kind === "cortex" || kind.kind === "dockerfile") return [];
  if (kind.kind === "server") return packages.length === 0 ? kind.needs : [];
  const framework = packages.length === 0 ? [kind.framework.toLowerCase()] : [];
  const needed = [...framework, kind.kind === "asgi" ? "uvicorn" : "gunicorn"];
  return needed.filter((one) => !packages.some((other) => other.toLowerCase().startsWith(one)));
}

function head(name: string, kind: DeployableApp["kind"], pythonVersion: string | null): string {
  const what =
    kind.kind === "cortex"
      ? "# Settings of this app. Each public function of main.py becomes an endpoint: slipway call <app>/<function>"
      : "# Settings of this app, which brings its own server.";
  const open = hasPage(kind)
    ? "# Browsers send no token. With this, anyone may open the app's page, and call the app:"
    : "# Anyone may call the app without a token:";
  return `${what}
# All keys, with what they mean: docs/app-settings.md. The tables are called cerebrium because that is the name of the
# interface that Slipway speaks, so that apps written for it run here unchanged.
# Files that outlive replicas go below /persistent-storage, which all apps of the project share: use a folder of its own there,
# or give the app storage that no other app sees:
# [slipway.storage]
# path = "/data"

[cerebrium.deployment]
name = ${JSON.stringify(name)}
${pythonVersion === null ? '# python_version = "3.12"' : `python_version = "${pythonVersion}"`}
# Files to deploy; .gitignore and .slipwayignore count too.
include = ["*"]
exclude = [".*"]
${open}
# disable_auth = true

[cerebrium.hardware]
cpu = 1
memory = 1  # GB
# compute = "ADA_L4"  # a GPU, where the platform has one; default: CPU
`;
}

/** Whether people use the app in a browser, as demos are. */
export function hasPage(kind: DeployableApp["kind"]): boolean {
  return kind.kind === "server" && kind.hasPage;
}

const scaling = `[cerebrium.scaling]
min_replicas = 0  # nothing runs, and nothing is paid for, while nobody calls
max_replicas = 2
cooldown = 60     # seconds without calls until a replica ends
# replica_concurrency = 100  # calls that one replica answers at once
`;

function customRuntime(kind: Exclude<DeployableApp["kind"], { readonly kind: "cortex" }>): string {
  if (kind.kind === "dockerfile") {
    return `# Needs a platform with the docker driver.
[cerebrium.runtime.custom]
dockerfile_path = ${JSON.stringify(kind.path)}
port = ${kind.port}
# healthcheck_endpoint = "/health"
# readycheck_endpoint = "/ready"
`;
  }
  const { what, entrypoint, port } = servedBy(kind);
  return `# ${what}.
[cerebrium.runtime.custom]
entrypoint = [${entrypoint.map((word) => JSON.stringify(word)).join(", ")}]
port = ${port}
# healthcheck_endpoint = "/health"
# readycheck_endpoint = "/ready"
`;
}

function servedBy(
  kind: Exclude<DeployableApp["kind"], { readonly kind: "cortex" | "dockerfile" }>,
) {
  if (kind.kind === "server")
    return { what: kind.framework, entrypoint: kind.entrypoint, port: kind.port };
  const what = `${kind.framework}, as ${kind.app}`;
  const entrypoint =
    kind.kind === "asgi"
      ? ["uvicorn", kind.app, "--host", "0.0.0.0", "--port", "8000"]
      : ["gunicorn", kind.app, "--preload", "--bind", "0.0.0.0:8000"];
  return { what, entrypoint, port: 8000 };
}

function dependencies(packages: readonly string[]): string {
  if (packages.length === 0) {
    return `# Packages; a requirements.txt beside this file does as well.
# [cerebrium.dependencies.pip]
# numpy = "latest"
# httpx = ">=0.27"
`;
  }
  const rows = packages.map((one) => {
    const [, name, version] =
      /^\s*([A-Za-z0-9][\w.-]*(?:\[[\w, .-]+\])?)\s*([<>=!~][^;@]*)?$/.exec(one) ?? [];
    if (name === undefined)
      return `# ${one.replaceAll(/[\r\n]/g, " ")}  (write this one in a requirements.txt)`;
    return `${JSON.stringify(name)} = ${JSON.stringify((version ?? "latest").trim())}`;
  });
  return `[cerebrium.dependencies.pip]\n${rows.join("\n")}\n`;
}

/** An app to begin with. */
export const mainPy = `"""Each public function here is an endpoint of the app: slipway call <app>/<function> key=value"""

import time


def run(name: str = "world"):
    """The keys of a call are the parameters; what is returned is its result, as JSON."""
    print(f"greeting {name}")  # see it with: slipway logs <app>
    return {"greeting": f"Hello, {name}!"}


def count(to: int = 5):
    """A generator: each value is sent as soon as it is there, as server-sent events."""
    for number in range(1, to + 1):
        yield f"Number {number}"
        time.sleep(0.2)


def _helper():
    """A name that begins with an underscore is no endpoint."""
`;
