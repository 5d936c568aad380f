// Finds out what kind of app a folder holds, for `slipway init`: how it is served, and whether its
// packages are listed where the platform finds them.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { parse } from "smol-toml";
import { dockerfilesAmong } from "@slipway/server/src/lib/dockerfile-names.ts";
import { quoted } from "./call-example.ts";
import { goDockerfile, nodeDockerfile, type MadeDockerfile } from "./made-dockerfile.ts";
import { portIn, sourceFiles, textOf } from "./source-files.ts";

/** How an app is served. */
export type AppKind =
  /** Functions of a `main.py`; `isNew`: there is none yet. */
  | { readonly kind: "cortex"; readonly isNew: boolean }
  /**
   * An app with a Dockerfile. `made`: the Dockerfile that `init` writes; null: the folder has one.
   */
  | {
      readonly kind: "dockerfile";
      readonly path: string;
      readonly port: number;
      readonly made: Extract<MadeDockerfile, { text: string }> | null;
    }
  /** An app with a server of its own: `app` is `module:variable`. */
  | { readonly kind: "asgi" | "wsgi"; readonly app: string; readonly framework: string }
  /**
   * A program that serves. `needs`: packages, where the folder lists none; `hasPage`: people use it
   * in a browser.
   */
  | {
      readonly kind: "server";
      readonly framework: string;
      readonly entrypoint: readonly string[];
      readonly port: number;
      readonly needs: readonly string[];
      readonly hasPage: boolean;
    }
  /** It cannot be deployed yet: the one thing to do. */
  | { readonly kind: "none"; readonly why: string };

/** What `init` writes down. */
export type FoundApp = {
  readonly kind: AppKind;
  /** The packages of `pyproject.toml`, such as `httpx>=0.27`. */
  readonly packages: readonly string[];
  /** The platform reads it itself, where the settings list no packages. */
  readonly hasRequirements: boolean;
};

const frameworks: readonly { readonly name: string; readonly kind: "asgi" | "wsgi" }[] = [
  { name: "FastAPI", kind: "asgi" },
  { name: "Starlette", kind: "asgi" },
  { name: "Litestar", kind: "asgi" },
  { name: "Quart", kind: "asgi" },
  { name: "FastMCP", kind: "asgi" },
  { name: "Flask", kind: "wsgi" },
  { name: "Bottle", kind: "wsgi" },
];

const portByDefault = 8000;
const usualDockerfile = "Dockerfile";

/** Reads, but runs nothing of the folder. */
export function findApp(folder: string): FoundApp {
  const hasRequirements = ["requirements.txt", "uv.lock"].some((name) =>
    existsSync(join(folder, name)),
  );
  return {
    kind: kindOf(folder),
    packages: hasRequirements ? [] : packagesOf(folder),
    hasRequirements,
  };
}

function kindOf(folder: string): AppKind {
  const dockerfiles = dockerfilesAmong(sourceFiles(folder, /(?:docker|container)file/i));
  const usual = [usualDockerfile, ...dockerfiles].find((path) => isWhatServes(folder, path));
  if (usual !== undefined) return ofDockerfile(folder, usual);
  const web = /^web:[ \t]*(.*\S)/m.exec(textOf(join(folder, "Procfile")) ?? "")?.[1] ?? null;
  const names = readdirSync(folder);
  if (names.includes("package.json") && !names.includes("main.py"))
    return built(nodeDockerfile(folder, web));
  if (names.includes("go.mod")) return built(goDockerfile(folder));
  const python = sourceFiles(folder, /\.py$/);
  if (web !== null && python.length > 0) return ofProcfile(web);
  for (const path of python) {
    const found = servedBy(path, textOf(join(folder, path)) ?? "");
    if (found !== null) return found;
  }
  if (names.includes("main.py")) return ofMain(textOf(join(folder, "main.py")) ?? "");
  const isNew = names.every(
    (name) => name.startsWith(".") || /^(?:readme|licen[cs]e|changelog)\b/i.test(name),
  );
  if (isNew) return { kind: "cortex", isNew };
  const [only, another] = dockerfiles;
  if (only !== undefined && another === undefined && !only.includes("/"))
    return ofDockerfile(folder, only);
  return { kind: "none", why: nextStep(names, { python, dockerfiles }) };
}

/** `Dockerfile.test` beside a main.py need not be what serves. */
function isWhatServes(folder: string, path: string): boolean {
  return /^(?:docker|container)file$/i.test(path) && textOf(join(folder, path)) !== null;
}

function ofDockerfile(folder: string, path: string): AppKind {
  const text = textOf(join(folder, path)) ?? "";
  const port = Number(/^\s*EXPOSE\s+(\d+)/im.exec(text)?.[1] ?? portByDefault);
  return { kind: "dockerfile", path, port, made: null };
}

/** A Dockerfile copies from the app's folder, which may be its own folder or the one above. */
function whichDockerfile(paths: readonly string[]): string {
  const listed = paths.slice(0, 3).join(", ");
  return `There is ${listed}. Run slipway init in the folder of the app, beside its Dockerfile; or write a slipway.toml here, and in it, below [cerebrium.runtime.custom], dockerfile_path = "<Dockerfile>" and port.`;
}

function built(made: MadeDockerfile): AppKind {
  if ("why" in made) return { kind: "none", why: made.why };
  return { kind: "dockerfile", path: "Dockerfile", port: made.port, made };
}

/** A start command for a shell. The platform sets PORT. */
function ofProcfile(command: string): AppKind {
  const port = portIn([command], /\$\{?PORT\b/, /(?:--port[= ]|-p |:)(\d{2,5})\b/) ?? portByDefault;
  const [program = ""] = command.split(/\s/, 1);
  const needs = ["gunicorn", "uvicorn", "streamlit"].includes(program) ? [program] : [];
  return {
    kind: "server",
    framework: "The web process of the Procfile",
    entrypoint: ["sh", "-c", command],
    port,
    needs,
    hasPage: program === "streamlit",
  };
}

/** What a Python file serves; null: nothing that says so. */
function servedBy(path: string, text: string): AppKind | null {
  if (/^(?:import|from) modal\b/m.test(text)) return { kind: "none", why: ofModal(path) };
  const served = servedIn(text);
  if (served !== null) {
    const module = path.replace(/(?:\/__init__)?\.py$/, "").replaceAll("/", ".");
    return { kind: served.kind, app: `${module}:${served.variable}`, framework: served.framework };
  }
  if (/^(?:import|from) streamlit\b/m.test(text)) {
    const options = [
      "--server.address",
      "0.0.0.0",
      "--server.port",
      String(portByDefault),
      "--server.headless",
      "true",
    ];
    const entrypoint = ["streamlit", "run", path, ...options];
    return {
      kind: "server",
      framework: "Streamlit",
      entrypoint,
      port: portByDefault,
      needs: ["streamlit"],
      hasPage: true,
    };
  }
  if (/^\s*(?:import|from) gradio\b/m.test(text) && /\.launch\(/.test(text))
    return ofGradio(path, text);
  return null;
}

/** Arguments of `launch` win over the variables. */
function ofGradio(path: string, text: string): AppKind {
  const written = portIn([text], /\bPORT\b/, /\bserver_port\s*=\s*(\d{2,5})\b/);
  const port = written ?? portByDefault;
  const variables = [
    "GRADIO_SERVER_NAME=0.0.0.0",
    ...(written === null ? [`GRADIO_SERVER_PORT=${port}`] : []),
  ];
  const entrypoint = ["env", ...variables, "python", path];
  const needs = ["gradio"];
  return { kind: "server", framework: "Gradio", entrypoint, port, needs, hasPage: true };
}

/** A `main.py` whose functions become endpoints, or that serves by itself. */
function ofMain(text: string): AppKind {
  if (/^(?:async[ \t]+)?def[ \t]+[^\W_]\w*[ \t]*\(/m.test(text) || /^from .* import /m.test(text)) {
    return { kind: "cortex", isNew: false };
  }
  if (/\b(?:serve_forever|run_app|uvicorn\.run|HTTPServer)\b/.test(text)) {
    const port =
      portIn([text], /\bPORT\b/, /\bport\s*=\s*(\d{2,5})\b|,\s*(\d{4,5})\s*\)/) ?? portByDefault;
    return {
      kind: "server",
      framework: "main.py",
      entrypoint: ["python", "main.py"],
      port,
      needs: [],
      hasPage: false,
    };
  }
  const why =
    "main.py has no public function at its top level. Write one, such as def run(text: str), which becomes an endpoint. Then: slipway init";
  return { kind: "none", why };
}

function ofModal(path: string): string {
  return `${path} is written for Modal. Write a main.py with its functions as plain ones, without modal and its decorators: each public one becomes an endpoint. Then: slipway init`;
}

/** The one thing to do in a folder that has files, and none that says how it starts. */
function nextStep(
  names: readonly string[],
  {
    python,
    dockerfiles,
  }: { readonly python: readonly string[]; readonly dockerfiles: readonly string[] },
): string {
  const again = "Then: slipway init";
  const compose = names.find((name) => /^(?:docker-)?compose\.ya?ml$/.test(name));
  if (compose !== undefined) {
    return `${compose} starts services, and an app here is one of them. Run slipway init in the folder of the one to deploy, which has its Dockerfile; for a service that only names an image, write a Dockerfile with FROM and that image.`;
  }
  if (dockerfiles.length > 0) return whichDockerfile(dockerfiles);
  const notebook = names.find((name) => name.endsWith(".ipynb"));
  if (python.length === 0 && notebook !== undefined) {
    const script = JSON.stringify(notebook);
    return `${notebook} is a notebook, which answers no calls. Make it a script (jupyter nbconvert --to script --output main ${script}), and put what calls do into functions: each public one becomes an endpoint. ${again}`;
  }
  const [first] = python;
  const folder = first?.endsWith("/main.py") === true ? first.slice(0, -"/main.py".length) : null;
  if (folder !== null)
    return `There is no main.py here. The app seems to be in ${folder}. Then: slipway init ${quoted(folder)}`;
  if (first !== undefined) {
    return `There is no main.py. Rename ${first} to main.py if it has the functions that calls use, or write a main.py that imports them. ${again}`;
  }
  return `Nothing here says how the app starts. Write a main.py, whose public functions become endpoints, or a Dockerfile. ${again}`;
}

/** An app object of a framework that the file makes at its top level. */
function servedIn(
  text: string,
): { kind: "asgi" | "wsgi"; variable: string; framework: string } | null {
  for (const { name, kind } of frameworks) {
    const made = new RegExp(
      `^(\\w+)(?:\\s*:\\s*[\\w.]+)?\\s*=\\s*(?:\\w+\\.)?${name}\\(`,
      "m",
    ).exec(text);
    if (made?.[1] !== undefined) return { kind, variable: made[1], framework: name };
  }
  const django = /^(\w+)\s*=\s*get_(a|w)sgi_application\(/m.exec(text);
  return django?.[1] === undefined
    ? null
    : { kind: django[2] === "a" ? "asgi" : "wsgi", variable: django[1], framework: "Django" };
}

function packagesOf(folder: string): string[] {
  const text = textOf(join(folder, "pyproject.toml"));
  if (text === null) return [];
  try {
    const { project } = parse(text) as { project?: { dependencies?: unknown } };
    const listed = project?.dependencies;
    return Array.isArray(listed)
      ? listed.filter((one): one is string => typeof one === "string")
      : [];
  } catch {
    // Whoever builds the package will be told.
    return [];
  }
}
