// Runs the docker command line for builds. Each run has a home folder with the configuration and
// the credentials that it needs, so that the client reads no file of the operator's own home.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { buildAgain } from "@slipway/contract/advice.ts";
import { BuildFailed } from "#drivers/builder.ts";
import { findClient, pluginFolders, runClient, type FoundClient } from "./docker-client.ts";
import type { RegistryAuths } from "./registry-auth.ts";

type Environment = Readonly<Record<string, string>>;

export type ClientRun = {
  /** Default: the home without credentials. */
  readonly home?: string;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
};

/** The folder in a home that has the client's configuration. */
export const clientFolder = "client";

/** Runs the docker command line. Each run searches for it anew: an operator may replace it. */
export class BuildClient {
  readonly #home: string;
  readonly #environment: Environment;

  /** `home`: the home without credentials. `environment`: PATH, and the engine's address. */
  constructor(home: string, environment: Environment) {
    this.#home = home;
    this.#environment = environment;
  }

  /** Returns the client that builds; throws `BuildFailed` when there is none. */
  async find(): Promise<FoundClient> {
    const client = await findClient(this.environmentIn(this.#home));
    if (client.ok) return client;
    throw new BuildFailed(
      `No image can be built here: ${client.reason}. The operator has to install the docker command line with its plugin buildx, or one older than version 23; then ${buildAgain}.`,
    );
  }

  /** Runs a command to its end and returns its output; rejects when it fails. */
  async run(
    parameters: readonly string[],
    { home = this.#home, ...options }: ClientRun = {},
  ): Promise<string> {
    const { program } = await this.find();
    return await runClient(program, parameters, {
      ...options,
      environment: this.environmentIn(home),
    });
  }

  /** Returns all variables of a run with this home. */
  environmentIn(home: string): Record<string, string> {
    return { ...this.#environment, HOME: home, DOCKER_CONFIG: join(home, clientFolder) };
  }

  /** Stores the credentials for runs with this home. */
  async configure(home: string, auths: RegistryAuths): Promise<void> {
    const folder = join(home, clientFolder);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const config = { auths, cliPluginsExtraDirs: pluginFolders };
    await writeFile(join(folder, "config.json"), JSON.stringify(config), { mode: 0o600 });
  }
}
