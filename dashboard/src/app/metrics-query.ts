// Asks for the charts of an app over the last hour, day or week.
import { queryOptions } from "@tanstack/react-query";
import { api, ask } from "#api.ts";
import { pathOf, slowRefreshMs, type AppRef } from "#queries.ts";

/** How far back. */
export type Range = "hour" | "day" | "week";

const hourMs = 3_600_000;
const lengthsMs = { hour: hourMs, day: 24 * hourMs, week: 7 * 24 * hourMs } as const;

const metricsOf = (ref: AppRef, range: Range, signal: AbortSignal) =>
  ask(
    api.GET("/v2/projects/{project_id}/apps/{app_id}/resource-metrics", {
      params: {
        path: pathOf(ref),
        query: { start: new Date(Date.now() - lengthsMs[range]).toISOString() },
      },
      signal,
    }),
  );

/** The charts. */
export type Metrics = Awaited<ReturnType<typeof metricsOf>>;

/** It is measured once a minute. */
export const metricsQuery = (ref: AppRef, range: Range) =>
  queryOptions({
    queryKey: ["metrics", ref, range],
    queryFn: ({ signal }) => metricsOf(ref, range, signal),
    staleTime: slowRefreshMs,
    refetchInterval: slowRefreshMs * 2,
  });

/** A point of a series as a number; null: nothing was measured then. */
export function numberOf(point: string | null | undefined): number | null {
  return typeof point === "string" ? Number(point) : null;
}
