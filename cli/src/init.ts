// `slipway init`: makes a folder deployable. It looks at what is there, writes a commented
// `slipway.toml`, and in an empty folder a `main.py` to begin with.
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { createInterface } from "node:readline/promises";
import { tomlNames } from "./app-folder.ts";
import { quoted } from "./call-example.ts";
import { findApp } from "./app-kind.ts";
import { hasPage, mainPy, tomlFor, type DeployableApp } from "./app-templates.ts";
import { command } from "./command.ts";
import type { Machine } from "./machine.ts";
import { output } from "./output.ts";
import { Refused } from "./refused.ts";

/** The platform takes no others. */
const nameForm = /^[a-z0-9-]{3,30}$/;
const nameByDefault = "my-app";

/** The command that makes a folder deployable. */
export const init = command({
  name: "init",
  about: `Make a folder deployable: writes a commented slipway.toml that fits what is there (functions in a main.py, FastAPI, Flask
and other ASGI or WSGI apps, Gradio, Streamlit, a Procfile, a Dockerfile), for Node.js and Go a Dockerfile, and in an empty folder
a main.py to begin with. It overwrites nothing. Exits with 1 if something is to be done first, which it says.`,
  examples: ["init", "init shop --name shop"],
  operands: [
    {
      name: "folder",
      about: "The folder, which is made if it is not there. Default: this one.",
      isOptional: true,
    },
  ],
  options: {
    name: { value: "<app>", about: "The app's name. Default: the folder's." },
    force: { value: null, about: "Replace a slipway.toml that is there." },
  },
  async run(given, machine) {
    const operand = given.operand("folder");
    const folder = resolve(operand === "" ? "." : operand);
    const present = tomlNames.find((one) => existsSync(join(folder, one)));
    if (present !== undefined && !given.has("force")) {
      throw new Refused(
        `${join(folder, present)} is there already. Deploy it: slipway deploy. To write a new slipway.toml: slipway init --force`,
      );
    }
    const name = await nameOf(given.text("name"), folder, machine);
    mkdirSync(folder, { recursive: true });
    const { kind, ...rest } = findApp(folder);
    if (kind.kind === "none") throw new Refused(kind.why);
    const found = { ...rest, kind };
    if (kind.kind === "dockerfile" && kind.made !== null) {
      writeFileSync(join(folder, kind.path), kind.made.text, { flag: "wx" });
      machine.tell(
        `Wrote ${kind.path} for ${kind.made.framework}: it needs a platform with the docker driver.`,
      );
    }
    writeFileSync(join(folder, "slipway.toml"), tomlFor(name, found, pythonVersion()));
    machine.tell(`Wrote slipway.toml: ${sentenceOf(found)}`);
    if (kind.kind === "cortex" && kind.isNew) writeMain(folder, machine);
    if (hasPage(kind)) {
      machine.tell(
        "Browsers send no token. To open the app's page in a browser, set disable_auth = true in slipway.toml; then anyone can open it and call the app.",
      );
    }
    machine.tell(
      "The apps of a project share one volume, /persistent-storage: give each app a folder of its own there.",
    );
    const words = ["", ...(operand === "" ? [] : [quoted(operand)])].join(" ");
    const tryHere =
      kind.kind === "dockerfile" ? "" : `    (or try it here first: slipway dev${words})`;
    machine.tell(`Next: slipway deploy${words}${tryHere}`);
    output(given, machine, { folder, name }, () => undefined);
  },
});

/**
 * The version of this machine's usual Python, with which the app is tried here; null: there is none
 * that apps can have.
 */
function pythonVersion(): string | null {
  const code = "import sys; print('%d.%d' % sys.version_info[:2])";
  const { stdout } = spawnSync("python3", ["-I", "-c", code], {
    encoding: "utf8",
    timeout: 10_000,
  });
  const [, version, minor] = /^(3\.(\d+))$/.exec(stdout?.trim() ?? "") ?? [];
  return version !== undefined && Number(minor) >= 8 && Number(minor) <= 14 ? version : null;
}

function writeMain(folder: string, machine: Machine): void {
  writeFileSync(join(folder, "main.py"), mainPy, { flag: "wx" });
  machine.tell("Wrote main.py: its functions run and count become endpoints.");
}

/** Asks on a terminal; elsewhere the folder's name has to do. */
async function nameOf(
  given: string | undefined,
  folder: string,
  machine: Machine,
): Promise<string> {
  if (given !== undefined) return checked(given, "--name");
  const proposed = proposedName(folder);
  if (!machine.isInteractive) {
    if (proposed === nameByDefault) {
      machine.tell(
        `The name is ${proposed}: the folder's own does not fit. For another one: slipway init --name <app>`,
      );
    }
    return proposed;
  }
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  asking.once("SIGINT", () => process.exit(130));
  // Ctrl-D: the proposed name.
  const ended = once(asking, "close").then(() => "");
  try {
    const answer = (
      await Promise.race([asking.question(`Name of the app [${proposed}]: `), ended])
    ).trim();
    return answer === "" ? proposed : checked(answer, "The name");
  } finally {
    asking.close();
  }
}

function checked(name: string, what: string): string {
  if (nameForm.test(name)) return name;
  throw new Refused(
    `${what} is ${JSON.stringify(name)}, but must be 3 to 30 lowercase letters, digits and dashes.`,
    {
      exitCode: 2,
    },
  );
}

function proposedName(folder: string): string {
  const words = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-");
  const name = words.slice(0, 30).replaceAll(/^-+|-+$/g, "");
  return nameForm.test(name) ? name : nameByDefault;
}

function sentenceOf({ kind, packages }: DeployableApp): string {
  const beside = packages.length === 0 ? "" : ` The packages are those of pyproject.toml.`;
  if (kind.kind === "cortex") return `functions of main.py become endpoints.${beside}`;
  if (kind.kind === "dockerfile")
    return `the app is built from its Dockerfile and listens on port ${kind.port}.`;
  if (kind.kind === "server")
    return `${kind.framework} is started, and listens on port ${kind.port}.${beside}`;
  return `${kind.framework} is served as ${kind.app}.${beside}`;
}
