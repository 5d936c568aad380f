// The branches of the repository that is typed, asked of its git host once the typing pauses. They
// are an offer: whatever the host answers, a branch can be typed.
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { api, ask, messageOf } from "#api.ts";
import type { Offer } from "./setting-fields.tsx";
import { problemOf } from "./setting-values.ts";

/** The pause in typing after which a git host is asked. */
export const pauseMs = 600;

/** `problem`: why the repository cannot be read. */
export type Branches = { readonly offer: Offer; readonly problem: string };

/** Asks for each repository once. */
export function useBranches(project: string, typed: string): Branches {
  const [gitRepo] = useDebouncedValue(typed, pauseMs);
  const isAsked = gitRepo !== "" && problemOf("gitRepo", gitRepo) === "";
  const { data, error, isFetching } = useQuery({
    queryKey: ["branches", project, gitRepo],
    queryFn: ({ signal }) => {
      const params = { path: { project_id: project }, query: { gitRepo } };
      return ask(
        api.GET("/v2/projects/{project_id}/git-repositories/branches", { params, signal }),
      );
    },
    enabled: isAsked,
    retry: false,
    staleTime: 60_000,
    refetchOnWindowFocus: false,
  });
  const waiting = (note: string): Branches => ({ offer: { values: [], note }, problem: "" });
  if (!isAsked || gitRepo !== typed) return waiting("");
  if (isFetching) return waiting("Asking its git host for the branches …");
  if (data === undefined)
    return { ...waiting(""), problem: error === null ? "" : messageOf(error) };
  const { branches, defaultBranch, hasMore } = data;
  const count = `${hasMore ? "More than " : ""}${branches.length} ${branches.length === 1 ? "branch" : "branches"}`;
  const preset = defaultBranch === null ? "" : `; the default one is ${defaultBranch}`;
  return { offer: { values: branches, note: `Found: ${count}${preset}.` }, problem: "" };
}
