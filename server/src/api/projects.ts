// Projects: list, create, rename, delete.
import type { z } from "zod";
import type { projectDetail } from "@slipway/contract/project-answers.ts";
import type { ProjectView } from "#apps/project-list.ts";
import { callerOf, projectOf, bodyOf, type ApiCall, type Handlers, type Sent } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for projects. */
export function projectHandlers({ projects, clock }: HandlerParts) {
  return {
    async listProjects(call) {
      return (await projects.of(callerOf(call))).map(({ id, name }) => ({ id, name }));
    },
    async createProject(call) {
      projects.requireMaker(callerOf(call));
      return showProject(await projects.create(nameOf(call), callerOf(call), call.by));
    },
    async getProject(call) {
      return showProject(await projects.get(projectOf(call), callerOf(call)));
    },
    async updateProject(call) {
      return showProject(
        await projects.rename({ id: projectOf(call), name: nameOf(call), by: call.by }, callerOf(call)),
      );
    },
    async deleteProject(call) {
      await projects.delete({ id: projectOf(call), nowMs: clock.now(), by: call.by });
      return { message: "The project was deleted; its members and tokens no longer have access." };
    },
  } satisfies Handlers;
}

function nameOf(call: ApiCall): string {
  return String(bodyOf(call)["name"]);
}

const showProject = (project: ProjectView): Sent<z.infer<typeof projectDetail>> => project;
