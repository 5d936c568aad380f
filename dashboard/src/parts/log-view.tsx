// Lines of a log: only those in sight are in the page, the end is followed until somebody scrolls
// up, and what lines contain is shown as text, without the codes that colour terminals.
import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { Button } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { plainText } from "./plain-text.ts";

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

const rowPx = 20;
const nearEndPx = 40;
/** So far before the first line those before it are asked for. */
const nearStartPx = 4_000;

const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hourCycle: "h23",
});
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

type LogViewProps = {
  readonly lines: readonly LogLine[];
  readonly label: string;
  readonly empty: ReactNode;
  /**
   * Grows with each line that is added before the first one, and shrinks with those that are
   * dropped there.
   */
  readonly added?: number;
  /** The newest lines are missing. */
  readonly isCut?: boolean;
  /** Called near the first line. */
  readonly onOlder?: () => void;
  /** Called to get the newest lines back. */
  readonly onNewest?: () => void;
};

/** The lines, in a box that scrolls. */
export function LogView(given: LogViewProps): ReactNode {
  const { lines, label, empty, added = 0, isCut = false, onOlder, onNewest } = given;
  const box = useRef<HTMLDivElement>(null);
  const [isFollowing, setFollowing] = useState(true);
  const addedBefore = useRef(added);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => rowPx,
    overscan: 20,
  });
  useLayoutEffect(() => {
    const more = added - addedBefore.current;
    addedBefore.current = added;
    if (box.current === null) return;
    if (isFollowing && !isCut) box.current.scrollTop = box.current.scrollHeight;
    // What somebody reads stays where it is.
    else if (more !== 0) box.current.scrollTop += more * rowPx;
  }, [isFollowing, isCut, lines, added]);
  const older = useRef(onOlder);
  useEffect(() => {
    older.current = onOlder;
  });
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const onScroll = (): void => {
      setFollowing(element.scrollHeight - element.scrollTop - element.clientHeight < nearEndPx);
      if (element.scrollTop < nearStartPx) older.current?.();
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
            return line === undefined ? null : <Line key={line.key} of={line} start={start} />;
          })}
        </div>
      </div>
      {(isFollowing && !isCut) || lines.length === 0 ? null : (
        <Button
          className="to-end"
          onClick={() => {
            setFollowing(true);
            if (isCut) onNewest?.();
          }}
        >
          To the end
        </Button>
      )}
    </div>
  );
}

function Line({ of: line, start }: { readonly of: LogLine; readonly start: number }): ReactNode {
  return (
    <div className="log-line" data-kind={line.kind} style={{ transform: `translateY(${start}px)` }}>
      <time dateTime={line.at} title={whole.format(new Date(line.at))}>
        {clock.format(new Date(line.at))}
      </time>
      <span className="log-source" title={line.source}>
        {line.source}
      </span>
      <bdi>{plainText(line.text)}</bdi>
    </div>
  );
}
