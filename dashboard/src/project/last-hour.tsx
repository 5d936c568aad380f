// How an app was called in the last hour, in the list of apps: a line with the number of calls, and
// the number of errors. Asked only for apps that are in sight, so that a long list does not ask for
// all of them at once.
import { useEffect, useRef, useState, type ReactNode, type RefObject } from "react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { metricsQuery, numberOf, type Metrics } from "#app/metrics-query.ts";
import type { AppRef } from "#queries.ts";

/** The width of the line, in units of its own. */
const width = 96;
const height = 20;

/** The calls. */
export function CallsOfHour({ app }: { readonly app: AppRef }): ReactNode {
  const { element, metrics } = useHour(app);
  const calls = metrics === undefined ? null : pointsOf(metrics, "requests");
  return (
    <span ref={element} className="hour">
      {calls === null ? null : (
        <>
          {sum(calls) === 0 ? null : <Sparkline points={calls} />}
          <span className="count">{sum(calls).toLocaleString()}</span>
        </>
      )}
    </span>
  );
}

/** The calls that failed; they lead to the runs that did. */
export function ErrorsOfHour({ app }: { readonly app: AppRef }): ReactNode {
  const { element, metrics } = useHour(app);
  const count = metrics === undefined ? null : sum(pointsOf(metrics, "failures"));
  return (
    <span ref={element}>
      {count === null || count === 0 ? (
        count
      ) : (
        <Link
          className="bad"
          to="/projects/$project/apps/$app/runs"
          params={app}
          search={{ status: "failure" }}
        >
          {count}
        </Link>
      )}
    </span>
  );
}

type Hour = {
  readonly element: RefObject<HTMLSpanElement | null>;
  readonly metrics: Metrics | undefined;
};

function useHour(app: AppRef): Hour {
  const element = useRef<HTMLSpanElement>(null);
  const isInSight = useInSight(element);
  const { data } = useQuery({ ...metricsQuery(app, "hour"), enabled: isInSight });
  return { element, metrics: data };
}

/** Whether somebody can see it, or soon could. */
function useInSight(element: RefObject<Element | null>): boolean {
  const [isInSight, setInSight] = useState(false);
  useEffect(() => {
    if (element.current === null) return;
    const observer = new IntersectionObserver(
      (entries) => setInSight(entries.at(-1)?.isIntersecting === true),
      // One screen's worth of scrolling is nothing that anybody waits for.
      { rootMargin: "100px" },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [element]);
  return isInSight;
}

function pointsOf(metrics: Metrics, kind: "requests" | "failures"): number[] {
  return (metrics[kind].series[0]?.data ?? []).map((point) => numberOf(point) ?? 0);
}

function sum(points: readonly number[]): number {
  return points.reduce((total, point) => total + point, 0);
}

/** It says no more than the number beside it, so that readers of the screen are spared. */
function Sparkline({ points }: { readonly points: readonly number[] }): ReactNode {
  const max = Math.max(...points, 1);
  const at = (point: number, index: number): string =>
    `${((index * width) / Math.max(1, points.length - 1)).toFixed(1)},${(height - 1 - (point / max) * (height - 2)).toFixed(1)}`;
  return (
    <svg
      className="sparkline"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <polyline points={points.map(at).join(" ")} />
    </svg>
  );
}
