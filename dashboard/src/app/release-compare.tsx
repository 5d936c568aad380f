// What differs between the settings of two releases, which the address names.
import type { ReactNode } from "react";
import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { api, ask } from "#api.ts";
import { List } from "#parts/list.tsx";
import { Name } from "#parts/name.tsx";
import { Answer } from "#parts/show.tsx";
import { pathOf, type AppRef } from "#queries.ts";
import { useApp } from "./app-frame.tsx";
import { differencesOf } from "./setting-differences.ts";

const releaseOf = (ref: AppRef, release: number, signal: AbortSignal) =>
  ask(
    api.GET("/v2/projects/{project_id}/apps/{app_id}/releases/{release}", {
      params: { path: { ...pathOf(ref), release: String(release) } },
      signal,
    }),
  );

type Known = { readonly number: number; readonly state: string };

/** Two choices and the differences between them; nothing for an app with one release. */
export function CompareReleases({ releases }: { readonly releases: readonly Known[] }): ReactNode {
  const search: { readonly from?: string; readonly to?: string } = useSearch({ strict: false });
  const navigate = useNavigate();
  const [newest, before] = releases;
  if (newest === undefined || before === undefined) return null;
  const live = releases.find(({ state }) => state === "live");
  const to = chosen(search.to, releases) ?? newest.number;
  const from =
    chosen(search.from, releases) ??
    (live !== undefined && live.number !== to ? live.number : before.number);
  const choices = releases.map(({ number, state }) => ({
    value: String(number),
    label: `v${number}, ${state.replaceAll("_", " ")}`,
  }));
  const choose = (change: { from?: string; to?: string }): void => {
    void navigate({
      to: ".",
      search: { from: String(from), to: String(to), ...change },
      replace: true,
    });
  };
  return (
    <section>
      <h2>Compare settings</h2>
      <div className="filters">
        <NativeSelect
          label="From"
          value={String(from)}
          data={choices}
          onChange={(event) => choose({ from: event.currentTarget.value })}
        />
        <NativeSelect
          label="To"
          value={String(to)}
          data={choices}
          onChange={(event) => choose({ to: event.currentTarget.value })}
        />
      </div>
      <Differences from={from} to={to} />
    </section>
  );
}

function chosen(text: string | undefined, releases: readonly Known[]): number | undefined {
  return releases.find(({ number }) => String(number) === text)?.number;
}

function Differences({ from, to }: { readonly from: number; readonly to: number }): ReactNode {
  const ref = useApp();
  const both = useQuery({
    queryKey: ["release-settings", ref, from, to],
    queryFn: async ({ signal }) => {
      const [one, other] = await Promise.all([
        releaseOf(ref, from, signal),
        releaseOf(ref, to, signal),
      ]);
      return differencesOf(one.settings, other.settings);
    },
    // The settings of a release never change.
    staleTime: Infinity,
  });
  return (
    <Answer of={both}>
      {(differences) => (
        <List
          label="Differences"
          columns={["Setting", `v${from}`, `v${to}`]}
          empty={from === to ? "It is the same release." : "They have the same settings."}
          rows={differences.map(({ name, from: one, to: other }) => ({
            key: name,
            cells: [
              <code key="name">{name}</code>,
              <Name key="from" of={one} />,
              <Name key="to" of={other} />,
            ],
          }))}
        />
      )}
    </Answer>
  );
}
