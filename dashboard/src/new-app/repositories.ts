// The repositories that the project can deploy from: those of its apps, and those that its tokens
// for git hosts can see. They are an offer: any address can be typed.
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { api, ask, messageOf } from "#api.ts";
import { pauseMs } from "./branches.ts";
import type { Offer } from "./setting-fields.tsx";

/** Asks once when the page opens, and for what is typed only where a host has more than it told. */
export function useRepositories(project: string, typed: string): Offer {
  const [text] = useDebouncedValue(typed, pauseMs);
  const { data: all, error } = useQuery(repositoriesQuery(project, ""));
  const search = searchOf(text);
  const hasMore = all?.hosts.some((host) => host.hasMore) === true;
  const found = useQuery({
    ...repositoriesQuery(project, search),
    enabled: hasMore && search !== "",
  });
  if (all === undefined) return { values: [], note: error === null ? "" : messageOf(error) };
  const values = [...new Set([...all.items, ...(found.data?.items ?? [])])];
  const notes = all.hosts.flatMap(({ host, hasMore: isPart, problem }) => {
    if (problem !== null) return [`The repositories of ${host} cannot be listed: ${problem}`];
    return isPart ? [`${host} has more: type a part of the name.`] : [];
  });
  if (found.error !== null) notes.push(messageOf(found.error));
  if (all.hosts.length === 0)
    notes.push(
      "To choose from those of GitHub, GitLab, Gitea or Forgejo, set a token for the host under Credentials.",
    );
  else if (notes.length === 0)
    notes.push(
      values.length === 1 ? "There is 1 to choose." : `There are ${values.length} to choose from.`,
    );
  return { values, note: notes.join(" ") };
}

/** Hosts search by the name of a repository, without its owner. */
function searchOf(text: string): string {
  const name = text.split("/").at(-1) ?? "";
  return /^[\w.-]{2,100}$/.test(name) ? name : "";
}

function repositoriesQuery(project: string, search: string) {
  return {
    queryKey: ["repositories", project, search],
    queryFn: ({ signal }: { readonly signal: AbortSignal }) => {
      const params = { path: { project_id: project }, query: search === "" ? {} : { search } };
      return ask(api.GET("/v2/projects/{project_id}/git-repositories", { params, signal }));
    },
    retry: false,
    staleTime: 60_000,
    refetchOnWindowFocus: false,
  };
}
