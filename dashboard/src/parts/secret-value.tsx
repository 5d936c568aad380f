// A value that is hidden until somebody asks for it; it can be copied unseen.
import { useState, type ReactNode } from "react";
import { CopyIcon } from "./show.tsx";

/** `name`: what it is, for readers of the screen. */
export function SecretValue({
  name,
  value,
}: {
  readonly name: string;
  readonly value: string;
}): ReactNode {
  const [isShown, setShown] = useState(false);
  return (
    <span className="secret">
      <code>{isShown ? value : "••••••••"}</code>
      <button
        type="button"
        className="as-link"
        onClick={() => setShown(!isShown)}
        aria-label={`${isShown ? "Hide" : "Show"} ${name}`}
      >
        {isShown ? "Hide" : "Show"}
      </button>
      <CopyIcon text={value} label={`Copy ${name}`} />
    </span>
  );
}
