// Route handlers that list, read, create, rename and delete projects.
import { callerOf, projectOf, bodyOf, type ApiCall, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for projects. */
export function projectHandlers({ projects, clock }: HandlerParts) {
  return {
    async listProjects(call) {
      return (await projects.of(callerOf(call))).map(({ id, name }) => ({ id, name }));
    },
    async createProject(call) {
      // A caller who may not create projects is told so before the body is checked, whatever the
      // body contains.
      projects.requireMaker(callerOf(call));
      return await projects.create(nameOf(call), callerOf(call), call.by);
    },
    async getProject(call) {
      return await projects.get(projectOf(call), callerOf(call));
    },
    async updateProject(call) {
      return await projects.rename(
        { id: projectOf(call), name: nameOf(call), by: call.by },
        callerOf(call),
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
