// Lines of a log: only those in sight are in the page, the end is followed until somebody scrolls up, and what lines contain is
// shown as text, without the codes that colour terminals.
import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { Button } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";

/** One line. */
export type LogLine = {
  readonly key: string;
  readonly at: string;
  readonly text: string;
  /** What the line is printed by, such as a stage or a replica. */
  readonly source: string;
  /** Lines on stderr, and those of the platform, look different. */
  readonly kind: string;
};

/** Older lines of a page that is open for long are dropped. */
export const linesMax = 20_000;

const rowPx = 20;
const nearEndPx = 40;

/** Codes for terminals: colours, titles, links. */
const terminalCodes = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

/** Control characters but the tab, and those that turn the direction of what follows. */
const unseen = /[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;

/** The text of a line as it is shown. */
export function plainText(text: string): string {
  return text.replaceAll(terminalCodes, "").replaceAll(unseen, "\ufffd");
}

const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hourCycle: "h23",
});
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

type LogViewProps = { readonly lines: readonly LogLine[]; readonly label: string; readonly empty: ReactNode };

/** The lines, in a box that scrolls. */
export function LogView({ lines, label, empty }: LogViewProps): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const [isFollowing, setFollowing] = useState(true);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => rowPx,
    overscan: 20,
  });
  useLayoutEffect(() => {
    if (isFollowing && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [isFollowing, lines]);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const onScroll = (): void => {
      setFollowing(element.scrollHeight - element.scrollTop - element.clientHeight < nearEndPx);
    };
    element.addEventListener("scroll", onScroll, { passive: true });
    return () => element.removeEventListener("scroll", onScroll);
  }, []);
  return (
    <div className="log-frame">
      <div ref={box} className="log" role="log" aria-label={label} aria-live="off" tabIndex={0}>
        {lines.length === 0 ? <p className="muted">{empty}</p> : null}
        <div className="log-lines" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map(({ index, start }) => {
            const line = lines[index];
            return line === undefined ? null : (
              <div
                key={line.key}
                className="log-line"
                data-kind={line.kind}
                style={{ transform: `translateY(${start}px)` }}
              >
                <time dateTime={line.at} title={whole.format(new Date(line.at))}>
                  {clock.format(new Date(line.at))}
                </time>
                <span className="log-source" title={line.source}>
                  {line.source}
                </span>
                <bdi>{plainText(line.text)}</bdi>
              </div>
            );
          })}
        </div>
      </div>
      {isFollowing || lines.length === 0 ? null : (
        <Button className="to-end" onClick={() => setFollowing(true)}>
          To the end
        </Button>
      )}
    </div>
  );
}
