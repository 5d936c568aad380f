// A name, an address or a text that somebody else chose: shown as text whatever it contains, and
// broken where it is long.
import type { ReactNode } from "react";
import { plainText } from "./plain-text.ts";

/** Longer ones get more room on a narrow screen. */
const shortMax = 40;

/** The name; what surrounds it keeps its direction. */
export function Name({
  of,
  isStrong = false,
}: {
  readonly of: string;
  readonly isStrong?: boolean;
}): ReactNode {
  const classes = [
    "name",
    ...(isStrong ? ["strong"] : []),
    ...(of.length > shortMax ? ["long"] : []),
  ];
  return <bdi className={classes.join(" ")}>{plainText(of)}</bdi>;
}
