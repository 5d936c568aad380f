// `slipway deploy`: makes the app of a folder run, from its files or from its git repository, and
// follows the build to its end.
import { answerOf } from "@slipway/client/client.ts";
import { dockerfilesAmong } from "@slipway/server/src/lib/dockerfile-names.ts";
import { readAppFolder, type AppFolder } from "./app-folder.ts";
import { ApiRefused } from "./api-client.ts";
import { followBuild, type BuildEnd } from "./build-follow.ts";
import { curlCall, exampleOf, quoted, slipwayCall } from "./call-example.ts";
import { readableToken } from "./call-token.ts";
import { chooseFiles, type ChosenFile, type ChosenFiles } from "./chosen-files.ts";
import { withCommands } from "./command-advice.ts";
import { command, type Given } from "./command.ts";
import { connect, projectOptions, projectPath, type Connection } from "./connection.ts";
import { appOfFolder, projectWith } from "./folder-app.ts";
import { gitRefOf } from "./git-remote.ts";
import type { Machine } from "./machine.ts";
import { pack } from "./pack.ts";
import { plain, plainJson } from "./plain-text.ts";
import { Progress } from "./progress.ts";
import { Refused } from "./refused.ts";
import { megabytes, upload, UploadRefused } from "./upload.ts";

const about = `
Deploys the app of a folder: packs its files, uploads them, follows the build, and says how to call the app. With --git the
platform fetches the repository instead.

Packed is what include and exclude in slipway.toml say (default: everything but names at the top that begin with a dot),
without what .gitignore and .slipwayignore list. Never packed: .git, .slipway, node_modules, __pycache__, virtual
environments. A link is followed within the folder; one that leads out of it is refused.

Exit code 0: the app is live. 1: the deployment failed. 2: it could not begin. 130: Ctrl-C.`;

/** The command that deploys the app of a folder, or of a repository. */
export const deploy = command({
  name: "deploy",
  about,
  examples: [
    "deploy",
    "deploy shop --name shop-next",
    "deploy --git --detach --json",
    "deploy --git --ref v1.2",
  ],
  endsItself: true,
  operands: [{ name: "folder", about: "The app's folder. Default: this one.", isOptional: true }],
  options: {
    name: { value: "<app>", about: "The app's name. Default: deployment.name in slipway.toml." },
    git: {
      value: null,
      about: "Deploy the newest commit of the branch from the remote origin, not the files here.",
    },
    ref: {
      value: "<name>",
      about:
        "With --git: this branch, tag, or commit (7 digits or more) of the remote, now and until another is named.",
    },
    detach: { value: null, about: "Do not wait for the build.", short: "d" },
    yes: {
      value: null,
      about: "Upload even if the app is deployed from a repository so far.",
      short: "y",
    },
    ...projectOptions,
  },
  async run(given, machine) {
    if (given.has("ref") && !given.has("git"))
      throw new Refused("--ref needs --git.", { exitCode: 2 });
    const folder = readAppFolder(given.operand("folder"));
    const here = appOfFolder(folder.path);
    const name = given.text("name") ?? here.app;
    if (name === null) throw nameless(folder);
    const connection = connect(given, machine);
    const project = await projectWith(here, { connection, given, machine });
    const deployment = new Deployment({ folder, name, project, connection, machine, given });
    return await deployment.run();
  },
});

function nameless(folder: AppFolder): Refused {
  const what =
    folder.toml === null
      ? "has no slipway.toml. Make one: slipway init"
      : `has no name in its ${folder.toml.file}. Add one below [cerebrium.deployment]: name = "<app>"`;
  return new Refused(`${folder.path} ${what}. Or name the app: slipway deploy --name <app>`, {
    exitCode: 2,
  });
}

type DeploymentOptions = {
  readonly folder: AppFolder;
  readonly name: string;
  readonly project: string;
  readonly connection: Connection;
  readonly machine: Machine;
  readonly given: Given;
};

/** A build that has begun. */
type Begun = { readonly buildId: string; readonly url: string; readonly dashboardUrl: string };

class Deployment {
  readonly #given: DeploymentOptions;
  readonly #progress: Progress;
  /** What Ctrl-C says and does. */
  #interrupt: () => void | Promise<void> = () => undefined;

  constructor(given: DeploymentOptions) {
    this.#given = given;
    this.#progress = new Progress(given.machine);
  }

  /** Deploys the app; resolves with the exit code. */
  async run(): Promise<number> {
    const { given, machine } = this.#given;
    const beganMs = performance.now();
    const onSignal = (): void => {
      this.#progress.clear();
      const end = setTimeout(() => process.exit(130), interruptMs);
      void Promise.resolve(this.#interrupt()).finally(() => (clearTimeout(end), process.exit(130)));
    };
    process.on("SIGINT", onSignal);
    try {
      const begun = given.has("git") ? await this.#fromRepository() : await this.#fromFiles();
      if (given.has("detach")) return this.#sayDetached(begun);
      this.#interrupt = () => this.#sayGoesOn(begun);
      const end = await followBuild(this.#given.connection.client, this.#buildPath(begun.buildId), {
        print: (line) => machine.tell(line),
        tell: (message) => machine.tell(message),
      });
      return await this.#sayEnd(begun, end, (performance.now() - beganMs) / 1000);
    } finally {
      process.off("SIGINT", onSignal);
    }
  }

  async #fromRepository(): Promise<Begun> {
    const { folder, machine, given } = this.#given;
    const { warnings, ...ref } = gitRefOf(folder.path, given.text("ref"));
    for (const warning of warnings) machine.tell(warning);
    const { gitRepo, gitBranch, gitPath } = ref;
    const kind = given.has("ref") ? "at" : "branch";
    const from = `${gitRepo}${gitPath === undefined ? "" : `, folder ${gitPath}`}`;
    machine.tell(
      `Deploying ${this.#given.name} from ${from}${gitBranch === undefined ? "" : `, ${kind} ${gitBranch}`} …`,
    );
    const { api } = this.#given.connection.client;
    const existing = await this.#existing();
    if (existing !== null) {
      const path = { project_id: this.#given.project, app_id: existing.id };
      // Another repository, branch or folder starts a build itself; what else is set stays.
      const body = { ...ref, gitPath: gitPath ?? null };
      const route = "/v2/projects/{project_id}/apps/{app_id}" as const;
      const changed = await answerOf(api.PATCH(route, { params: { path }, body }));
      const { buildId } =
        changed.buildId === null
          ? await answerOf(api.POST(`${route}/builds`, { params: { path }, body: {} }))
          : { buildId: changed.buildId };
      return { buildId, url: existing.internalEndpoint, dashboardUrl: "" };
    }
    const made = await answerOf(
      api.POST("/v2/projects/{project_id}/apps/git", {
        params: { path: { project_id: this.#given.project } },
        body: { name: this.#given.name, ...ref },
      }),
    );
    return { buildId: made.buildId, url: made.internalEndpoint, dashboardUrl: made.dashboardUrl };
  }

  async #fromFiles(): Promise<Begun> {
    const { folder, name, given } = this.#given;
    const chosen = await chooseFiles(folder);
    requireStart(folder, chosen.files);
    const repository = (await this.#existing())?.gitRepo ?? null;
    if (repository !== null && !given.has("yes")) {
      throw new Refused(
        `${name} is deployed from the repository ${plain(repository)}. To build its newest commit: slipway deploy --git\n` +
          "To deploy the files of this folder instead: slipway deploy --yes",
        { exitCode: 2 },
      );
    }
    this.#tellChosen(chosen);
    const count = chosen.files.length;
    const files = count === 1 ? "1 file" : `${count} files`;
    const packed = await pack(chosen.files, (bytes) =>
      this.#progress.show(`Packing ${files}: ${megabytes(bytes)}`),
    );
    try {
      this.#progress.clear();
      return await this.#send(packed, chosen.files);
    } finally {
      packed.remove();
    }
  }

  async #send(
    packed: { path: string; bytes: number },
    files: readonly ChosenFile[],
  ): Promise<Begun> {
    const { folder, name, project, connection, machine } = this.#given;
    const body = {
      name,
      include: folder.include,
      exclude: folder.exclude,
      ...(folder.toml === null ? {} : { cerebrium_toml: folder.toml.text }),
    };
    const params = { path: { project_id: project } };
    const made = await answerOf(
      connection.client.api.POST("/v2/projects/{project_id}/apps", { params, body }),
    ).catch((error: unknown) => {
      throw error instanceof ApiRefused && folder.toml !== null
        ? withFileName(error, folder.toml.file)
        : error;
    });
    const cancel = (): Promise<unknown> =>
      connection.client
        .ask({ method: "DELETE", path: this.#buildPath(made.buildId) })
        .catch(() => null);
    this.#interrupt = async () => {
      machine.tell("Interrupted before all files were uploaded: nothing was deployed.");
      await cancel();
    };
    try {
      await upload({
        url: connection.client.reached(made.uploadUrl),
        ...packed,
        onProgress: (bytes) =>
          this.#progress.show(`Uploading: ${megabytes(bytes)} of ${megabytes(packed.bytes)}`),
        onTrouble: (message) => (this.#progress.clear(), machine.tell(message)),
      });
    } catch (error) {
      this.#progress.clear();
      await cancel();
      if (error instanceof UploadRefused && error.status === 413) throw tooLarge(error, files);
      throw error;
    }
    this.#progress.clear();
    machine.tell(`Uploaded ${megabytes(packed.bytes)}. Building …`);
    return { buildId: made.buildId, url: made.internalEndpoint, dashboardUrl: made.dashboardUrl };
  }

  #tellChosen({ files, leftOut, notFiles }: ChosenFiles): void {
    const { name, machine } = this.#given;
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    machine.tell(
      `Deploying ${name}: ${files.length} ${files.length === 1 ? "file" : "files"}, ${megabytes(bytes)}.`,
    );
    const tell = (why: string, paths: readonly string[]): void => {
      if (paths.length === 0) return;
      const more = paths.length > shownMax ? ` and ${paths.length - shownMax} more` : "";
      machine.tell(`${why}: ${plain(paths.slice(0, shownMax).join(", "))}${more}.`);
    };
    tell("Left out by .gitignore or .slipwayignore", leftOut);
    tell("Left out because they are not regular files, or were removed meanwhile", notFiles);
  }

  async #existing() {
    const { connection, project, name } = this.#given;
    const params = { path: { project_id: project, app_id: name } };
    try {
      return await answerOf(
        connection.client.api.GET("/v2/projects/{project_id}/apps/{app_id}", { params }),
      );
    } catch (error) {
      if (error instanceof ApiRefused && error.status === 404) return null;
      throw error;
    }
  }

  #buildPath(buildId: string): string {
    const { project, name } = this.#given;
    return projectPath(
      project,
      `/apps/${encodeURIComponent(name)}/builds/${encodeURIComponent(buildId)}`,
    );
  }

  #sayDetached({ buildId, url, dashboardUrl }: Begun): number {
    const { given, machine, name } = this.#given;
    if (given.has("json"))
      machine.print(plainJson({ app: name, buildId, status: "pending", reason: null, url }));
    else {
      machine.print(buildId);
      machine.tell(`The build goes on. Its log: slipway builds logs ${name} ${buildId} -f`);
      if (dashboardUrl !== "") machine.tell(`Dashboard: ${dashboardUrl}`);
    }
    return 0;
  }

  #sayGoesOn({ buildId }: Begun): void {
    const { machine, name } = this.#given;
    machine.tell(`\nThe build goes on without this command.`);
    machine.tell(`  To follow it:  slipway builds logs ${name} ${buildId} -f`);
    machine.tell(`  To cancel it:  slipway builds cancel ${name} ${buildId}`);
  }

  async #sayEnd(
    { buildId, url }: Begun,
    { status, reason, isSaid }: BuildEnd,
    seconds: number,
  ): Promise<number> {
    const { given, machine, name, folder } = this.#given;
    const isLive = status === "success";
    if (given.has("json")) machine.print(plainJson({ app: name, buildId, status, reason, url }));
    if (!isLive) {
      machine.tell(
        `\n${name} was not deployed (${status})${reason === null || isSaid ? "." : `: ${withCommands(plain(reason))}`}`,
      );
      const isServed = ((await this.#existing())?.liveRelease ?? null) !== null;
      machine.tell(
        `${adviceFor(status)}${isServed ? `\n${name} keeps serving its previous release.` : ""}`,
      );
      return 1;
    }
    if (given.has("json")) return 0;
    const app = await this.#existing();
    const isOpen = app?.disableAuth === true;
    // A platform of an earlier version does not say.
    const pageUrl = app?.pageUrl ?? null;
    const example = exampleOf(folder);
    machine.print(`\n${name} is live after ${seconds.toFixed(1)} s: ${plain(url)}`);
    if (pageUrl !== null) machine.print(`  Its page:   ${plain(pageUrl)}`);
    machine.print(`  Call it:    ${plain(slipwayCall(name, example))}`);
    machine.print(
      `  With curl:  ${plain(curlCall(url, example, isOpen ? null : await this.#tokenText()))}`,
    );
    machine.print(`  Its output: slipway logs ${name} -f`);
    return 0;
  }

  /** What a shell replaces with a token that `slipway call` would use. */
  async #tokenText(): Promise<string> {
    const { connection, machine, project, given } = this.#given;
    if ((machine.environment["SLIPWAY_CALL_TOKEN"] ?? "") !== "") return "$SLIPWAY_CALL_TOKEN";
    if (connection.token !== null) return "$SLIPWAY_TOKEN";
    const at = { api: connection.client.api, path: { project_id: project, app_id: "" } };
    const verb = (await readableToken(at)) === null ? "create terminal --readable" : "show";
    const url = given.text("url");
    const elsewhere = [
      ...(project === connection.signIn?.project ? [] : ["--project", project]),
      ...(url === undefined ? [] : ["--url", url]),
    ];
    return `$(${["slipway keys", verb, ...elsewhere.map(quoted)].join(" ")})`;
  }
}

/** How long Ctrl-C waits for the platform. */
const interruptMs = 3_000;
/** The maximum number of names that are listed. */
const shownMax = 5;

/** What serves the app must be there, else the build would fail a minute later. */
function requireStart(folder: AppFolder, files: readonly ChosenFile[]): void {
  const paths = files.map(({ path }) => path);
  // With a Dockerfile, the platform knows whether it is set there, and whether it can be built.
  if (folder.custom !== null || paths.includes("main.py") || dockerfilesAmong(paths).length > 0)
    return;
  throw new Refused(
    `${folder.path} has no main.py among the files to deploy, and no runtime.custom in slipway.toml.\n` +
      "To begin an app here: slipway init. If main.py is elsewhere: slipway deploy <folder>",
    { exitCode: 2 },
  );
}

/** The platform names the text of the file as the field that it was sent in. */
function withFileName(error: ApiRefused, file: string): ApiRefused {
  return new ApiRefused(
    error.status,
    error.message.replaceAll(/\b(?:config|cerebrium)_toml\b/g, file),
    error.body,
  );
}

function tooLarge(error: UploadRefused, files: readonly ChosenFile[]): Refused {
  const largest = files.toSorted((one, other) => other.bytes - one.bytes).slice(0, 3);
  const names = largest.map(({ path, bytes }) => `${plain(path)} (${megabytes(bytes)})`).join(", ");
  const how =
    "Leave files out with exclude in slipway.toml or in .slipwayignore, and let the app fetch large ones.";
  return new Refused(`${error.message}\nThe largest files: ${names}.\n${how}`, { cause: error });
}

function adviceFor(status: string): string {
  const again = "then deploy again: slipway deploy";
  if (status === "cancelled") return "The build was cancelled. To deploy again: slipway deploy";
  if (status === "init_timeout") {
    return (
      "The app was not ready in time; the log above says what it waited for. Correct that, or raise " +
      `deployment_initialization_timeout in slipway.toml if its start takes longer, ${again}`
    );
  }
  if (status === "init_failure") {
    return `The files were built, but the app did not start; its output is above. Run it here with slipway dev, ${again}`;
  }
  return `The log above has the cause. Correct it, ${again}`;
}
