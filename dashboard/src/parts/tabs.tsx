// The row of pages of a project or an app; it scrolls sideways on a phone.
import type { ReactNode } from "react";
import { Link, type LinkProps } from "@tanstack/react-router";

/** One page: its name and its address. */
export type Tab = LinkProps & { readonly name: string; readonly isWhole?: boolean };

/** Links to pages that belong together. */
export function Tabs({ label, of }: { readonly label: string; readonly of: readonly Tab[] }): ReactNode {
  return (
    <nav aria-label={label} className="tabs">
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
