// What the platform gives out a single time, such as a new token: shown until the page is left, and
// read out.
import type { ReactNode } from "react";
import { Copyable } from "./show.tsx";

type OnceProps = {
  /** What it is, for readers of the screen. */
  readonly label: string;
  readonly text: string;
  /** What to do with it. */
  readonly children: ReactNode;
  /** What else there is to say. */
  readonly more?: ReactNode;
};

/** The text, to be copied. */
export function Once({ label, text, children, more }: OnceProps): ReactNode {
  return (
    <section className="once" role="status">
      <p className="strong">{children}</p>
      {more}
      <Copyable label={label} text={text} />
    </section>
  );
}
