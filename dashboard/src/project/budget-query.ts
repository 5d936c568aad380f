// Asks for a budget: that of a project, or of one of its apps.
import { queryOptions } from "@tanstack/react-query";
import { ApiError } from "@slipway/client/client.ts";
import { api, ask } from "#api.ts";
import { slowRefreshMs } from "#queries.ts";

/** `app` undefined: the budget of the whole project. */
export type BudgetPlace = { readonly project: string; readonly app: string | undefined };

async function readBudget({ project, app }: BudgetPlace, signal: AbortSignal) {
  const path = { project_id: project };
  return app === undefined
    ? await ask(api.GET("/v2/projects/{project_id}/budget", { params: { path }, signal }))
    : await ask(
        api.GET("/v2/projects/{project_id}/apps/{app_id}/budget", {
          params: { path: { ...path, app_id: app } },
          signal,
        }),
      );
}

/** A budget with what of it is spent. */
export type Budget = Awaited<ReturnType<typeof readBudget>>;

async function budgetOf(place: BudgetPlace, signal: AbortSignal): Promise<Budget | null> {
  try {
    return await readBudget(place, signal);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** Null: there is none. */
export const budgetQuery = (place: BudgetPlace) =>
  queryOptions({
    queryKey: ["budget", place.project, place.app],
    queryFn: ({ signal }) => budgetOf(place, signal),
    refetchInterval: slowRefreshMs,
  });
