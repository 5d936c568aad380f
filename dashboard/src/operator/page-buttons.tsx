// Buttons below a list that comes in pages; the page is part of the address.
import type { ReactNode } from "react";
import { Button } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";

type PageButtonsProps = { readonly page: string | undefined; readonly nextToken: string | undefined };

/** Back to the first page, and on to the next. */
export function PageButtons({ page, nextToken }: PageButtonsProps): ReactNode {
  const navigate = useNavigate();
  const goTo = (next: string | undefined): void => {
    void navigate({ to: ".", search: (before) => ({ ...before, page: next }) });
  };
  return (
    <div className="row">
      {page === undefined ? null : (
        <Button variant="default" onClick={() => goTo(undefined)}>
          First page
        </Button>
      )}
      {nextToken === undefined ? null : (
        <Button variant="default" onClick={() => goTo(nextToken)}>
          Next page
        </Button>
      )}
    </div>
  );
}
