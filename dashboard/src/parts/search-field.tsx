// A search whose text is part of the address, so that a link to the page finds the same.
import type { ReactNode } from "react";
import { TextInput } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";

type SearchFieldProps = {
  /** What is said of what it finds. */
  readonly found?: string;
  readonly placeholder?: string;
  readonly maxLength?: number;
};

/** The field. The page reads the text from its address, as `search`. */
export function SearchField({ found, ...attributes }: SearchFieldProps): ReactNode {
  const { search = "" } = useSearch({ strict: false });
  const navigate = useNavigate();
  return (
    <div className="filters">
      <TextInput
        label="Search"
        type="search"
        autoComplete="off"
        {...attributes}
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
