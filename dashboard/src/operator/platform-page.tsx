// The platform itself: whether it takes calls and runs, its version and driver, what is announced,
// and how full its pools are.
import type { ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, ask, messageOf } from "#api.ts";
import { isInTrouble } from "#parts/certificate.tsx";
import { List } from "#parts/list.tsx";
import { counted, sizeText } from "#parts/quantities.ts";
import { Answer, Facts, State, useTitle } from "#parts/show.tsx";
import { slowRefreshMs } from "#queries.ts";

/** The page. */
export function PlatformPage(): ReactNode {
  const platform = useQuery({
    queryKey: ["platform"],
    queryFn: ({ signal }) => ask(api.GET("/v2/operator/platform", { signal })),
    refetchInterval: slowRefreshMs,
  });
  useTitle("Platform", "Operator");
  return (
    <>
      <h1>Platform</h1>
      <Answer of={platform}>
        {({ version, driver, database, pools }) => (
          <>
            <Facts
              isWide
              of={[
                ["Calls and runs", <Readiness key="ready" />],
                ["Certificates", <CertificatesInTrouble key="certificates" />],
                ["Version", version],
                ["Driver", driver],
                ["Database", sizeText(database.bytes)],
              ]}
            />
            <Announcements />
            <h2>Pools</h2>
            <Pools all={pools} />
          </>
        )}
      </Answer>
    </>
  );
}

function Readiness(): ReactNode {
  const ready = useQuery({
    queryKey: ["ready"],
    queryFn: ({ signal }) => ask(api.GET("/readyz", { signal })),
    refetchInterval: slowRefreshMs,
  });
  if (ready.error !== null) return <span className="error">{messageOf(ready.error)}</span>;
  return ready.data === undefined ? "" : <State of="active" />;
}

function CertificatesInTrouble(): ReactNode {
  const { data } = useQuery({
    queryKey: ["certificates", "in trouble"],
    queryFn: ({ signal }) => {
      // The ones in trouble come first, so this page has them all, unless there are hundreds.
      const query = { pageSize: 200 };
      return ask(api.GET("/v2/operator/certificates", { params: { query }, signal }));
    },
    refetchInterval: slowRefreshMs,
  });
  if (data === undefined) return "";
  const count = data.items.filter(isInTrouble).length;
  if (count === 0) return data.items.length === 0 ? "none requested" : <State of="valid" />;
  return (
    <Link to="/operator/certificates">
      <State of={`${count} failing`} />
    </Link>
  );
}

function Announcements(): ReactNode {
  const { data = [] } = useQuery({
    queryKey: ["announcements"],
    queryFn: ({ signal }) => ask(api.GET("/v2/notifications", { signal })),
  });
  return (
    <>
      <h2>Announced to everybody</h2>
      {data.length === 0 ? (
        <p className="muted">
          Nothing. The setting <code>SLIPWAY_ANNOUNCEMENT</code> announces something.
        </p>
      ) : (
        data.map(({ message }) => <p key={message}>{message}</p>)
      )}
    </>
  );
}

type Pool = {
  readonly name: string;
  readonly provider: string | null;
  readonly region: string | null;
  readonly tier: string;
  readonly cores: number;
  readonly freeCores: number;
  readonly memoryGb: number;
  readonly freeMemoryGb: number;
  readonly gpus: readonly {
    readonly compute: string;
    readonly count: number;
    readonly usable: number;
    readonly free: number;
  }[];
  readonly replicas: number;
  readonly apps: readonly {
    readonly projectId: string;
    readonly appId: string;
    readonly name: string;
    readonly replicas: number;
  }[];
};

const short = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

function Pools({ all }: { readonly all: readonly Pool[] }): ReactNode {
  const number = (head: string) => ({ head, isNumber: true });
  return (
    <List
      label="Pools"
      columns={[
        "Pool",
        "Where",
        "Tier",
        number("Replicas"),
        number("Cores used"),
        number("Memory used"),
        number("GPUs used"),
        "Apps there",
      ]}
      empty="The driver has no pools."
      rows={all.map((pool) => ({
        key: pool.name,
        cells: [
          <span key="name" className="strong">
            {pool.name}
          </span>,
          [pool.provider, pool.region].filter((one) => one !== null).join(", ") || "everywhere",
          pool.tier,
          String(pool.replicas),
          <Use key="cores" used={pool.cores - pool.freeCores} of={pool.cores} unit="" />,
          <Use
            key="memory"
            used={pool.memoryGb - pool.freeMemoryGb}
            of={pool.memoryGb}
            unit=" GB"
          />,
          <Gpus key="gpus" all={pool.gpus} />,
          <Apps key="apps" all={pool.apps} />,
        ],
      }))}
    />
  );
}

function Use({
  used,
  of,
  unit,
}: {
  readonly used: number;
  readonly of: number;
  readonly unit: string;
}): ReactNode {
  return (
    <span className="use">
      <span>
        {short.format(used)} of {short.format(of)}
        {unit}
      </span>
      <meter aria-hidden="true" min={0} max={of} value={used} />
    </span>
  );
}

/** More are only counted. */
const appsMax = 10;

function Apps({ all }: { readonly all: Pool["apps"] }): ReactNode {
  if (all.length === 0) return "–";
  return (
    <>
      {all.slice(0, appsMax).map(({ projectId, appId, name, replicas }) => (
        <div key={appId}>
          <Link to="/projects/$project/apps/$app" params={{ project: projectId, app: appId }}>
            {name}
          </Link>{" "}
          <span className="muted">{counted(replicas, "replica")}</span>
        </div>
      ))}
      {all.length > appsMax ? <div className="muted">and {all.length - appsMax} more</div> : null}
    </>
  );
}

function Gpus({ all }: { readonly all: Pool["gpus"] }): ReactNode {
  if (all.length === 0) return "–";
  return all.map(({ compute, count, usable, free }) => (
    <div key={compute}>
      {compute} {usable - free} of {usable}
      {usable < count ? <span className="error"> ({count - usable} do not answer)</span> : null}
    </div>
  ));
}
