// Small parts of all pages: headings, states, times, names with values, and what is shown while an
// answer is awaited.
import { useEffect, useRef, type ReactNode } from "react";
import { ActionIcon, Alert, CopyButton, Loader, Tooltip } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { ApiError } from "@slipway/client/client.ts";
import { messageOf } from "#api.ts";
import { timeText } from "./time-text.ts";

/** Sets the title of the browser's tab. */
export function useTitle(...names: readonly string[]): void {
  const title = [...names, "Slipway"].join(" – ");
  useEffect(() => {
    document.title = title;
  }, [title]);
}

/**
 * The heading of a view that took the place of another one; it gets the focus, so that it is read
 * out.
 */
export function Heading({ children }: { readonly children: ReactNode }): ReactNode {
  const element = useRef<HTMLHeadingElement>(null);
  useEffect(() => element.current?.focus(), []);
  return (
    <h1 ref={element} tabIndex={-1}>
      {children}
    </h1>
  );
}

/** A narrow column, for a page that is one form. */
export function Narrow({ children }: { readonly children: ReactNode }): ReactNode {
  return <div className="narrow alone">{children}</div>;
}

const kinds: readonly (readonly [RegExp, string])[] = [
  [/^(?:ACTIVE|RUNNING|Validated|success|live|finished|delivered|built|active|valid)$/, "good"],
  [/FAILED|Failed|failure|timeout|failed|taken_back|refused|denied|failing|has ended/, "bad"],
  [/^(?:ended|ignored|STOPPED|cancelled|replaced|expired|revoked)$/, "muted"],
];

/** A state in one word, with a dot in its colour. */
export function State({ of }: { readonly of: string }): ReactNode {
  const kind = kinds.find(([form]) => form.test(of))?.[1] ?? "wait";
  return (
    <span className="state" data-kind={kind}>
      {of.toLowerCase().replaceAll("_", " ")}
    </span>
  );
}

const wholeTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
/** A time as its distance from now, or as a date when that is a day or more; exact on hover. */
export function Time({ at }: { readonly at: string | null }): ReactNode {
  if (at === null) return <span className="muted">–</span>;
  return (
    <time dateTime={at} title={wholeTime.format(new Date(at))}>
      {timeText(at, Date.now())}
    </time>
  );
}

type FactsProps = {
  readonly of: readonly (readonly [string, ReactNode])[];
  /** True to show the facts side by side, each below its name. */
  readonly isWide?: boolean;
};

/** Names with what they stand for. */
export function Facts({ of, isWide = false }: FactsProps): ReactNode {
  return (
    <dl className={isWide ? "facts wide" : "facts"}>
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The number of digits that suffice to tell ids apart. */
const shortLength = 8;

/** A short form of an id: its end, because ids that are made one after the other begin alike. */
export function shortId(id: string): string {
  return id.slice(-shortLength);
}

/** An id in its short form, or a commit in that of git; whole on hover. */
export function Short({
  id,
  isCommit = false,
}: {
  readonly id: string;
  readonly isCommit?: boolean;
}): ReactNode {
  return (
    <code title={id} className="id">
      {isCommit ? id.slice(0, shortLength) : shortId(id)}
    </code>
  );
}

const icons = {
  copy: "M5.5 5.5V3a1 1 0 0 1 1-1H13a1 1 0 0 1 1 1v6.500a1 1 0 0 1-1 1h-2.500M3 5.500h6.500a1 1 0 0 1 1 1V13a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1V6.500a1 1 0 0 1 1-1z",
  done: "M3 8.500l3.500 3.500L13 4.500",
  search: "M7 2.500a4.500 4.500 0 1 0 0 9 4.500 4.500 0 0 0 0-9zM10.500 10.500L14 14",
  moon: "M13.500 9.500A6 6 0 0 1 6.500 2.500a6 6 0 1 0 7 7z",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
} as const;

/** A small picture; what it means is said by the button that it is in. */
export function Icon({ name }: { readonly name: keyof typeof icons }): ReactNode {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={icons[name]} />
    </svg>
  );
}

/** A text that can be copied with one click. */
export function Copyable({
  text,
  label,
}: {
  readonly text: string;
  readonly label: string;
}): ReactNode {
  return (
    <div className="copyable">
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <CopyIcon text={text} label={`Copy ${label}`} />
    </div>
  );
}

/** A button that copies. */
export function CopyIcon({
  text,
  label,
}: {
  readonly text: string;
  readonly label: string;
}): ReactNode {
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? "Copied" : label}>
          <ActionIcon variant="subtle" color="gray" aria-label={label} onClick={copy}>
            <Icon name={copied ? "done" : "copy"} />
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/**
 * The answer of a query once it is there; until then that it is awaited, or why it failed. A lost
 * connection is said at the top.
 */
export function Answer<Data>({
  of,
  children,
}: {
  readonly of: UseQueryResult<Data>;
  readonly children: (data: Data) => ReactNode;
}): ReactNode {
  if (of.data !== undefined) {
    return (
      <>
        {of.error instanceof ApiError ? <Problem error={of.error} /> : null}
        {children(of.data)}
      </>
    );
  }
  return of.error === null ? <Waiting /> : <Problem error={of.error} />;
}

/** That something is awaited. */
export function Waiting(): ReactNode {
  return (
    <div className="waiting" role="status" aria-label="Loading">
      <Loader size="sm" type="dots" color="gray" />
    </div>
  );
}

/** What went wrong, in the platform's words. */
export function Problem({ error }: { readonly error: unknown }): ReactNode {
  return (
    <Alert color="red" variant="light" role="alert" className="problem">
      {messageOf(error)}
    </Alert>
  );
}
