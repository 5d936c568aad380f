// Buttons below a list that comes in pages.
import type { ReactNode } from "react";
import { Button } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";

/** The names of the buttons of lists that are not ordered newest first. */
export const pagesInOrder = ["First page", "Next page"] as const;

type PageButtonsProps = {
  /** The page that is shown; undefined: the first one. */
  readonly page: string | undefined;
  /** The token of the next page; undefined: there is none. */
  readonly nextToken: string | undefined;
  readonly goTo: (page: string | undefined) => void;
  /** How the first and the next page are called; by default as of lists with the newest first. */
  readonly names?: readonly [first: string, next: string];
};

/** Back to the first page, and on to the next. */
export function PageButtons({
  page,
  nextToken,
  goTo,
  names = ["Newest", "Older"],
}: PageButtonsProps): ReactNode {
  return (
    <div className="pages">
      {page === undefined ? null : (
        <Button variant="default" onClick={() => goTo(undefined)}>
          {names[0]}
        </Button>
      )}
      {nextToken === undefined ? null : (
        <Button variant="default" onClick={() => goTo(nextToken)}>
          {names[1]}
        </Button>
      )}
    </div>
  );
}

/** Puts the page into the address, beside the filters. */
export function useGoToPage(): PageButtonsProps["goTo"] {
  const navigate = useNavigate();
  return (page) => void navigate({ to: ".", search: (before) => ({ ...before, page }) });
}
