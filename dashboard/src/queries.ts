// What pages ask again and again, with one key each, and how answers are kept: a refused request is
// not repeated, and one that says that nobody is signed in leads back to the sign-in.
import { MutationCache, QueryCache, QueryClient, queryOptions } from "@tanstack/react-query";
import { ApiError } from "@slipway/client/client.ts";
import { api, ask } from "./api.ts";
import { whenBack } from "./connection.ts";
import { asker, forgetAccess, storeToken, type Asker } from "./session.ts";

/** How often lists that change while somebody looks are read again. */
export const refreshMs = 3_000;
/** How often what changes seldom is read again. */
export const slowRefreshMs = 15_000;

/** Why the sign-in is shown, such as an ended session. */
let reason = "";

/** Says why the sign-in is shown, once. */
export function takeReason(): string {
  const said = reason;
  reason = "";
  return said;
}

function onRefusal(error: unknown): void {
  if (!(error instanceof ApiError) || error.status !== 401) return;
  storeToken(null);
  forgetAccess();
  reason = error.message;
  becomes("nobody");
}

/** Everything that was asked. */
export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: onRefusal }),
  mutationCache: new MutationCache({ onError: onRefusal }),
  defaultOptions: {
    queries: {
      staleTime: 1_000,
      retry: (failures, error) => !(error instanceof ApiError) && failures < 2,
      refetchOnWindowFocus: true,
    },
    mutations: { retry: false },
  },
});

// What is never asked again by itself is not asked now either: a reading of secrets is an entry of
// the audit log.
whenBack(() => void queryClient.refetchQueries({ type: "active", stale: true }));

/** Who is signed in. */
export const askerQuery = queryOptions({
  queryKey: ["asker"],
  queryFn: asker,
  staleTime: Infinity,
  retry: 1,
});

/** Somebody else is signed in now: what was asked as the one before is forgotten. */
export function becomes(who: Asker): void {
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== "asker" });
  queryClient.setQueryData(askerQuery.queryKey, who);
}

/** The person who is signed in, and this session. */
export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: ({ signal }) => ask(api.GET("/v2/auth/session", { signal })),
});

/** The projects of whoever asks. */
export const projectsQuery = queryOptions({
  queryKey: ["projects"],
  queryFn: ({ signal }) => ask(api.GET("/v2/projects", { signal })),
  staleTime: 30_000,
});

/** One project. */
export const projectQuery = (project: string) =>
  queryOptions({
    queryKey: ["project", project],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/v2/projects/{project_id}", { params: { path: { project_id: project } }, signal }),
      ),
    staleTime: 30_000,
  });

/** To be called after a project is created, renamed or deleted. */
export async function projectsChanged(): Promise<void> {
  await Promise.all(
    ["projects", "project"].map((key) => queryClient.invalidateQueries({ queryKey: [key] })),
  );
}

/** The apps of a project. */
export const appsQuery = (project: string) =>
  queryOptions({
    queryKey: ["apps", project],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/v2/projects/{project_id}/apps", {
          params: { path: { project_id: project } },
          signal,
        }),
      ),
    refetchInterval: refreshMs,
  });

/** Names an app. */
export type AppRef = { readonly project: string; readonly app: string };

/** The path parameters of routes of an app. */
export function pathOf({ project, app }: AppRef): { project_id: string; app_id: string } {
  return { project_id: project, app_id: app };
}

const appOf = (ref: AppRef, signal: AbortSignal) =>
  ask(
    api.GET("/v2/projects/{project_id}/apps/{app_id}", { params: { path: pathOf(ref) }, signal }),
  );

/** One app. */
export const appQuery = (ref: AppRef) =>
  queryOptions({
    queryKey: ["app", ref.project, ref.app],
    queryFn: ({ signal }) => appOf(ref, signal),
    refetchInterval: refreshMs,
  });

/** An app as it is shown. */
export type AppDetail = Awaited<ReturnType<typeof appOf>>;

/** The builds of an app, newest first. */
export const buildsQuery = (ref: AppRef) =>
  queryOptions({
    queryKey: ["builds", ref.project, ref.app],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/v2/projects/{project_id}/apps/{app_id}/builds", {
          params: { path: pathOf(ref) },
          signal,
        }),
      ),
    refetchInterval: refreshMs,
  });

/** The replicas that run. */
export const replicasQuery = (ref: AppRef) =>
  queryOptions({
    queryKey: ["replicas", ref.project, ref.app],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/v2/projects/{project_id}/apps/{app_id}/containers", {
          params: { path: pathOf(ref) },
          signal,
        }),
      ),
    refetchInterval: refreshMs,
  });

/** The last ones that have ended. */
export const endedReplicasQuery = (ref: AppRef) =>
  queryOptions({
    queryKey: ["replicas", ref.project, ref.app, "ended"],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/v2/projects/{project_id}/apps/{app_id}/containers/ended", {
          params: { path: pathOf(ref) },
          signal,
        }),
      ),
    refetchInterval: slowRefreshMs,
  });

/** The replicas of all apps of a project that run. */
export const projectReplicasQuery = (project: string) =>
  queryOptions({
    queryKey: ["replicas", project],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/v2/projects/{project_id}/containers", {
          params: { path: { project_id: project } },
          signal,
        }),
      ),
    refetchInterval: refreshMs,
  });

/** The releases of an app, newest first; at most a hundred. */
export const releasesQuery = (ref: AppRef) =>
  queryOptions({
    queryKey: ["releases", ref.project, ref.app],
    queryFn: ({ signal }) =>
      ask(
        api.GET("/v2/projects/{project_id}/apps/{app_id}/releases", {
          params: { path: pathOf(ref), query: { pageSize: 100 } },
          signal,
        }),
      ),
    refetchInterval: refreshMs,
  });

/** Asks for what is shown of runs again. */
export async function runsChanged(): Promise<void> {
  await queryClient.invalidateQueries({ queryKey: ["runs"] });
}
