// A search whose text is part of the address, so that a link to the page finds the same.
import type { ReactNode } from "react";
import { TextInput } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";

/** The field, with what is said of what it finds. The page reads the text from its address, as `search`. */
export function SearchField({ found }: { readonly found?: string }): ReactNode {
  const { search = "" } = useSearch({ strict: false });
  const navigate = useNavigate();
  return (
    <div className="filters">
      <TextInput
        label="Search"
        type="search"
        autoComplete="off"
        value={search}
        onChange={(event) => {
          const text = event.currentTarget.value;
          void navigate({ to: ".", search: text === "" ? {} : { search: text }, replace: true });
        }}
      />
      {found === undefined ? null : (
        <span className="muted" role="status">
          {found}
        </span>
      )}
    </div>
  );
}
