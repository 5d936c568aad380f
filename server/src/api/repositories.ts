// Lists repositories, their branches and the settings in them, for people who choose a repository
// for a new app.
import type { z } from "zod";
import type {
  branchList,
  foundSettings,
  repositoryList,
} from "@slipway/contract/repository-routes.ts";
import { allowedText } from "@slipway/contract/field.ts";
import { appFields } from "@slipway/contract/app-fields.ts";
import { Fault } from "#lib/fault.ts";
import type { AskedRepository } from "#pushes/repositories.ts";
import { projectOf, type ApiCall, type Handlers } from "./call.ts";
import { OwnerGate } from "./owner-gate.ts";
import type { HandlerParts } from "./parts.ts";

type Answer = z.infer<typeof foundSettings>;

/** Limits of these requests. Each runs git, or connects to a git host. */
const requestBounds = { max: 8, ownerMax: 2, ownerWaitingMax: 10, what: "repositories" };

/** Route handlers for repositories. */
export function repositoryHandlers(parts: HandlerParts) {
  const { repositories, stopping } = parts;
  const gate = new OwnerGate(parts, requestBounds);
  const repositoryOf = (call: ApiCall): AskedRepository => {
    const { gitRepo } = call.query;
    if (typeof gitRepo === "string")
      return { projectId: projectOf(call), gitRepo, signal: stopping };
    throw new Fault("invalid", `gitRepo is missing; it must be ${allowedText(appFields.gitRepo)}.`);
  };
  return {
    async listRepositories(call): Promise<z.infer<typeof repositoryList>> {
      const projectId = projectOf(call);
      const search = String(call.query["search"] ?? "");
      const list = await gate.run(() => repositories.list(projectId, search), { projectId });
      // The lists are copied, here and below, since the type of the answer has no readonly lists.
      return { items: [...list.items], hosts: [...list.hosts] };
    },
    async listBranches(call): Promise<z.infer<typeof branchList>> {
      const projectId = projectOf(call);
      const list = await gate.run(() => repositories.branches(repositoryOf(call)), { projectId });
      return { ...list, branches: [...list.branches] };
    },
    async readRepositorySettings(call): Promise<Answer> {
      const projectId = projectOf(call);
      // The contract has validated the types of the values.
      const gitBranch = call.query["gitBranch"] as string | null;
      const gitPath = String(call.query["gitPath"]);
      const { file, folders, ...rest } = await gate.run(
        () => repositories.settings({ ...repositoryOf(call), gitBranch, gitPath }),
        { projectId },
      );
      const shown = file && { ...file, settings: [...file.settings], warnings: [...file.warnings] };
      return { ...rest, folders: [...folders], file: shown };
    },
  } satisfies Handlers;
}
