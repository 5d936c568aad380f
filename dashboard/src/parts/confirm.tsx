// A button that asks once more before it does what cannot be undone.
import { useState, type ReactNode } from "react";
import { Button } from "@mantine/core";
import { useRun } from "./form.tsx";

type ConfirmProps = {
  /** What the button does, such as "Remove". */
  readonly what: string;
  /** What it does it to, for readers of the screen. */
  readonly to: string;
  /** What happens then, where the names do not say it. */
  readonly note?: ReactNode;
  readonly onAct: () => Promise<void>;
};

/** Does it only when it is clicked twice; the second button is another one, and has the focus. */
export function Confirm({ what, to, note, onAct }: ConfirmProps): ReactNode {
  const [isAsked, setAsked] = useState(false);
  const { error, isWaiting, run } = useRun();
  if (!isAsked) {
    return (
      <button
        type="button"
        className="as-link"
        aria-label={`${what} ${to}`}
        onClick={() => setAsked(true)}
      >
        {what}
      </button>
    );
  }
  return (
    <div className="confirm" role="group" aria-label={`${what} ${to}?`}>
      {note === undefined ? null : <span className="note">{note}</span>}
      <div className="row">
        <Button
          autoFocus
          size="compact-xs"
          color="red"
          aria-disabled={isWaiting}
          onClick={() => void run(onAct).then((isDone) => (isDone ? setAsked(false) : undefined))}
        >
          {what} now
        </Button>
        <Button size="compact-xs" variant="default" onClick={() => setAsked(false)}>
          Keep
        </Button>
      </div>
      <p className="error" role="alert">
        {error}
      </p>
    </div>
  );
}
