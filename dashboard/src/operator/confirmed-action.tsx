// A button that says what it will do and asks once more.
import { useState, type ReactNode } from "react";
import { Button } from "@mantine/core";
import { Action } from "#parts/form.tsx";

type ConfirmedActionProps = {
  /** The action with what it is done to. */
  readonly label: string;
  readonly about: string;
  readonly children: ReactNode;
  readonly onAct: () => Promise<void>;
};

/** The button, and the question in its place. */
export function ConfirmedAction({ label, about, children, onAct }: ConfirmedActionProps): ReactNode {
  const [isAsking, setAsking] = useState(false);
  if (!isAsking) {
    return (
      <Button variant="default" size="compact-xs" aria-label={label} onClick={() => setAsking(true)}>
        {children}
      </Button>
    );
  }
  return (
    <div role="group" aria-label={label}>
      <p className="note" role="status">
        {about}
      </p>
      <div className="row">
        <Action size="compact-xs" color="red" variant="filled" onAct={onAct}>
          {label}
        </Action>
        <Button size="compact-xs" variant="default" onClick={() => setAsking(false)}>
          Keep
        </Button>
      </div>
    </div>
  );
}
