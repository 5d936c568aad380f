// What git hosts say of repositories, for whoever chooses one for a new app.
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

/** Each starts git, or connects to a host. */
const looks = { max: 8, ownerMax: 2, ownerWaitingMax: 10, what: "repositories" };

/** Route handlers that look into repositories. */
export function repositoryHandlers(parts: HandlerParts) {
  const { repositories, stopping } = parts;
  const gate = new OwnerGate(parts, looks);
  const asked = (call: ApiCall): AskedRepository => {
    const { gitRepo } = call.query;
    if (typeof gitRepo === "string")
      return { projectId: projectOf(call), gitRepo, signal: stopping };
    throw new Fault("invalid", `gitRepo is missing; it must be ${allowedText(appFields.gitRepo)}.`);
  };
  return {
    async listRepositories(call): Promise<z.infer<typeof repositoryList>> {
      const projectId = projectOf(call);
      const search = String(call.query["search"] ?? "");
      const found = await gate.run(() => repositories.list(projectId, search), { projectId });
      return { items: [...found.items], hosts: [...found.hosts] };
    },
    async listBranches(call): Promise<z.infer<typeof branchList>> {
      const found = await gate.run(() => repositories.branches(asked(call)), {
        projectId: projectOf(call),
      });
      return { ...found, branches: [...found.branches] };
    },
    async readRepositorySettings(call): Promise<Answer> {
      // The contract has validated the types of the values.
      const gitBranch = call.query["gitBranch"] as string | null;
      const folderOnBranch = { gitBranch, gitPath: String(call.query["gitPath"]) };
      const { file, folders, ...rest } = await gate.run(
        () => repositories.settings({ ...asked(call), ...folderOnBranch }),
        {
          projectId: projectOf(call),
        },
      );
      const shown = file && { ...file, settings: [...file.settings], warnings: [...file.warnings] };
      return { ...rest, folders: [...folders], file: shown };
    },
  } satisfies Handlers;
}
