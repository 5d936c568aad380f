// A form that deletes something for good: only after its name has been typed.
import { useState, type ReactNode } from "react";
import { Button, TextInput } from "@mantine/core";
import { useRun } from "./form.tsx";

type DeleteByNameProps = {
  readonly name: string;
  /** What is deleted, such as "app". */
  readonly kind: string;
  /** What is lost. */
  readonly children: ReactNode;
  readonly onDelete: () => Promise<void>;
};

/** The section with the form. */
export function DeleteByName({ name, kind, children, onDelete }: DeleteByNameProps): ReactNode {
  const { error, isWaiting, run } = useRun();
  const [typed, setTyped] = useState("");
  return (
    <section className="danger">
      <div>
        <h2>Delete</h2>
        <p>{children} It cannot be undone.</p>
      </div>
      <form
        className="form"
        aria-label={`Delete the ${kind}`}
        onSubmit={(event) => {
          event.preventDefault();
          if (typed === name) void run(onDelete);
        }}
      >
        <TextInput
          label={`Type ${name} to delete it`}
          autoComplete="off"
          spellCheck={false}
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
        <p className="error" role="alert">
          {error}
        </p>
        <Button type="submit" color="red" disabled={typed !== name} aria-disabled={isWaiting}>
          Delete the {kind}
        </Button>
      </form>
    </section>
  );
}
