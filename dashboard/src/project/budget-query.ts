// Asks for a budget: that of a project, or of one of its apps.
import { queryOptions } from "@tanstack/react-query";
import { api, askIfThere } from "#api.ts";
import { slowRefreshMs } from "#queries.ts";

/** `app` undefined: the budget of the whole project. */
export type BudgetScope = { readonly project: string; readonly app: string | undefined };

/** Null: there is none. */
async function budgetOf({ project, app }: BudgetScope, signal: AbortSignal) {
  const path = { project_id: project };
  const appPath = { ...path, app_id: app ?? "" };
  return app === undefined
    ? await askIfThere(api.GET("/v2/projects/{project_id}/budget", { params: { path }, signal }))
    : await askIfThere(
        api.GET("/v2/projects/{project_id}/apps/{app_id}/budget", {
          params: { path: appPath },
          signal,
        }),
      );
}

/** A budget with what of it is spent. */
export type Budget = NonNullable<Awaited<ReturnType<typeof budgetOf>>>;

/** Null: there is none. */
export const budgetQuery = (scope: BudgetScope) =>
  queryOptions({
    queryKey: ["budget", scope.project, scope.app],
    queryFn: ({ signal }) => budgetOf(scope, signal),
    refetchInterval: slowRefreshMs,
  });
