// What an app prints: its latest lines, then each line as it comes, by text, run, replica and
// stream.
import type { ReactNode } from "react";
import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { textsOf } from "#parts/form.tsx";
import { shortId, useTitle } from "#parts/show.tsx";
import { replicasQuery } from "#queries.ts";
import { useApp } from "./app-frame.tsx";
import { AppLog } from "./app-log.tsx";
import type { LineFilter } from "./app-lines.ts";

/** The page. */
export function LogsPage(): ReactNode {
  const ref = useApp();
  const filter: LineFilter = useSearch({ strict: false });
  useTitle("Logs", ref.app);
  return (
    <>
      <Filters filter={filter} />
      <AppLog
        app={ref}
        filter={filter}
        label="Log"
        empty={
          Object.keys(filter).length === 0
            ? "Nothing printed yet."
            : "No line fits; new ones appear here."
        }
      />
    </>
  );
}

function Filters({ filter }: { readonly filter: LineFilter }): ReactNode {
  const ref = useApp();
  const navigate = useNavigate();
  const replicas = useQuery(replicasQuery(ref));
  const known = replicas.data?.map(({ containerId }) => containerId) ?? [];
  const chosen =
    filter.replica === undefined || known.includes(filter.replica)
      ? known
      : [filter.replica, ...known];
  const change = (more: LineFilter): void => {
    const all = Object.entries({ ...filter, ...more }).filter(([, value]) => value !== "");
    void navigate({ to: ".", search: Object.fromEntries(all), replace: true });
  };
  return (
    <form
      className="filters"
      aria-label="Filter"
      onSubmit={(event) => {
        event.preventDefault();
        const { search = "", run = "" } = textsOf(event.currentTarget);
        change({ search: search.trim(), run: run.trim() });
      }}
    >
      <TextInput
        key={`search ${filter.search}`}
        name="search"
        label="Search"
        type="search"
        autoComplete="off"
        defaultValue={filter.search ?? ""}
      />
      <TextInput
        key={`run ${filter.run}`}
        name="run"
        label="Run"
        autoComplete="off"
        defaultValue={filter.run ?? ""}
        placeholder="run id"
      />
      <NativeSelect
        label="Replica"
        value={filter.replica ?? ""}
        data={[
          { value: "", label: "all" },
          ...chosen.map((id) => ({ value: id, label: shortId(id) })),
        ]}
        onChange={(event) => change({ replica: event.currentTarget.value })}
      />
      <NativeSelect
        label="Stream"
        value={filter.stream ?? ""}
        data={[{ value: "", label: "both" }, "stdout", "stderr"]}
        onChange={(event) => change({ stream: event.currentTarget.value })}
      />
      <Button type="submit" variant="default">
        Filter
      </Button>
    </form>
  );
}
