// The charts of an app with a choice of how far back they go, which is part of the address.
import { lazy, Suspense, type ReactNode } from "react";
import { NativeSelect } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Waiting } from "#parts/show.tsx";
import { useApp } from "./app-frame.tsx";
import type { Range } from "./metrics-query.ts";

const UseCharts = lazy(async () => ({ default: (await import("./use-charts.tsx")).UseCharts }));

const names = { hour: "the last hour", day: "the last day", week: "the last week" } as const;

type ChartsProps = {
  /** Which charts. */
  readonly of: "calls" | "replicas";
  readonly ranges: readonly Range[];
};

/** The choice, and the charts as soon as they are loaded. */
export function Charts({ of, ranges }: ChartsProps): ReactNode {
  const ref = useApp();
  const { range } = useSearch({ strict: false });
  const navigate = useNavigate();
  const chosen = ranges.find((one) => one === range) ?? "hour";
  return (
    <section>
      <div className="filters">
        <NativeSelect
          label="Charts of"
          value={chosen}
          data={ranges.map((value) => ({ value, label: names[value] }))}
          onChange={(event) =>
            void navigate({ to: ".", search: { range: event.currentTarget.value }, replace: true })
          }
        />
      </div>
      <Suspense fallback={<Waiting />}>
        <UseCharts app={ref} range={chosen} of={of} />
      </Suspense>
    </section>
  );
}
