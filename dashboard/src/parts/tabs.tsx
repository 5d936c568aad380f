// The row of pages of a project or an app; it scrolls sideways on a phone.
import { useEffect, useRef, type ReactNode } from "react";
import { Link, useLocation, type LinkProps } from "@tanstack/react-router";

/** One page: its name and its address. */
export type Tab = LinkProps & { readonly name: string; readonly isWhole?: boolean };

/** Links to pages that belong together. */
export function Tabs({
  label,
  of,
}: {
  readonly label: string;
  readonly of: readonly Tab[];
}): ReactNode {
  const row = useRef<HTMLElement>(null);
  const path = useLocation({ select: ({ pathname }) => pathname });
  useEffect(() => {
    const tabs = row.current;
    if (tabs === null) return;
    // It watches the width, which changes when a phone is turned.
    const watch = new ResizeObserver(() => showOpen(tabs));
    watch.observe(tabs);
    return () => watch.disconnect();
  }, [path, of.length]);
  return (
    <nav ref={row} aria-label={label} className="tabs">
      <ul>
        {of.map(({ name, isWhole = false, ...link }) => (
          <li key={name}>
            <Link
              {...link}
              activeOptions={{ exact: isWhole, includeSearch: false }}
              activeProps={{ "aria-current": "page" }}
            >
              {name}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/**
 * Brings the page that is open in sight. Not by scrolling to it, which would move the whole page,
 * too.
 */
function showOpen(tabs: HTMLElement): void {
  const open = tabs.querySelector('[aria-current="page"]');
  if (open === null) return;
  const outer = tabs.getBoundingClientRect();
  const inner = open.getBoundingClientRect();
  tabs.scrollLeft += inner.left + inner.width / 2 - (outer.left + outer.width / 2);
}
