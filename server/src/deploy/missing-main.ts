// Says what to do about an app of the cortex runtime that has no main.py, by what its folder has
// instead. Pure.
import { changeField } from "@slipway/contract/advice.ts";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Driver } from "#drivers/driver.ts";
import { imageDriver } from "#drivers/driver-table.ts";
import { dockerfilesAmong } from "#lib/dockerfile-names.ts";

export type AppWithoutMain = {
  readonly settings: AppSettings;
  /** The paths of the app's files, in its folder and in the direct subfolders. */
  readonly names: readonly string[];
  readonly driver: Driver["name"];
  readonly canBuildDockerfiles: boolean;
};

/** How many names a list shows; it counts the others. */
const shownMax = 3;
const customTable = "[cerebrium.runtime.custom] in slipway.toml";
const startCommand = `set runtime to custom and entrypoint to its start command (${changeField}, or entrypoint below ${customTable})`;

/** Explains the missing file in one to three sentences, for the build's reason. */
export function whyNoMain(app: AppWithoutMain): string {
  const missing = `There is no main.py in ${folderOf(app.settings)}, where the cortex runtime looks for the app's functions`;
  const dockerfiles = dockerfilesAmong(app.names);
  if (dockerfiles.length > 0) return `${missing}, but there is ${withDockerfile(app, dockerfiles)}`;
  const mains = app.names.filter((name) => name.endsWith("/main.py"));
  const isGit = app.settings.gitRepo !== null;
  if (mains.length > 0) {
    const [first = ""] = mains;
    const folder = first.slice(0, first.lastIndexOf("/"));
    const inRepository = [app.settings.gitPath, folder].filter((part) => part !== "").join("/");
    const how = isGit
      ? `set gitPath to ${inRepository} (${changeField})`
      : `deploy the folder ${folder}`;
    return `${missing}, but there is ${listed(mains)}. If the app is there, ${how}.`;
  }
  const other = otherApp(app);
  if (other !== null) return `${missing}, but there is ${other}`;
  const elsewhere = isGit
    ? "set gitPath to the folder that has it"
    : "deploy the folder that has it";
  return `${missing}. Add one, ${elsewhere}, or use the custom runtime.`;
}

/** Names the app's folder as its owner knows it. */
export function folderOf({ gitRepo, gitPath }: AppSettings): string {
  if (gitPath !== "") return `the folder ${gitPath}`;
  return gitRepo === null ? "the app's folder" : "the repository's root";
}

/** A sentence that names the Dockerfiles among the files; "" if there are none. */
export function dockerfilesThere(names: readonly string[]): string {
  const dockerfiles = dockerfilesAmong(names);
  return dockerfiles.length === 0 ? "" : ` There is ${listed(dockerfiles)}.`;
}

function withDockerfile(app: AppWithoutMain, dockerfiles: readonly string[]): string {
  const [first = ""] = dockerfiles;
  const setting = `set dockerfilePath to ${first} (${changeField}, or dockerfile_path below ${customTable})`;
  if (app.canBuildDockerfiles) {
    const port = "and port to the port that the app listens on";
    return `${listed(dockerfiles)}. To have the app built from it, ${setting}, ${port}.${subfolderHint(app.settings, first)}`;
  }
  return `${listed(dockerfiles)}, which the ${app.driver} driver cannot build; the ${imageDriver} driver does (SLIPWAY_DRIVER=${imageDriver}). Ask the operator to switch to it, and ${setting}. To run the app without its Dockerfile, ${startCommand}, and list its packages in a requirements.txt.`;
}

/** A hint about a Dockerfile in a subfolder: a Dockerfile copies from the app's folder. */
function subfolderHint({ gitRepo }: AppSettings, path: string): string {
  if (!path.includes("/")) return "";
  const folder = path.slice(0, path.lastIndexOf("/"));
  const how = gitRepo === null ? "deploy that folder" : "set gitPath to that folder as well";
  return ` If it copies only the files of ${folder}, ${how}.`;
}

/**
 * Names the files by which other platforms start an app, and says what to do; null: there are none.
 */
function otherApp({ names, canBuildDockerfiles }: AppWithoutMain): string | null {
  const top = names.filter((name) => !name.includes("/"));
  const program = ["package.json", "go.mod", "Cargo.toml", "Gemfile"].find((name) =>
    top.includes(name),
  );
  if (program !== undefined) {
    return canBuildDockerfiles
      ? `${program}. Such an app is built from a Dockerfile: add one, and set dockerfilePath to it (${changeField}, or dockerfile_path below ${customTable}); slipway init in its folder writes both for Node.js and Go.`
      : `${program}. To start such an app, whose program has to be on the machine, ${startCommand}.`;
  }
  if (top.includes("Procfile")) {
    return `a Procfile, which is not read. To start the app by its command, ${startCommand}; slipway init in its folder writes that.`;
  }
  const python = top.filter((name) => name.endsWith(".py"));
  if (python.length === 0) return null;
  return `${listed(python)}. Rename it to main.py if it has the app's functions; if it serves by itself, ${startCommand}.`;
}

function listed(names: readonly string[]): string {
  const listedNames = names.slice(0, shownMax).join(", ");
  const others = names.length - shownMax;
  return others > 0 ? `${listedNames} and ${others} more` : listedNames;
}
