// Reads which content codings a client accepts for an answer (the header Accept-Encoding).

/**
 * The weight of each coding that the header names, in lower case. 0 refuses the coding; one without
 * a weight has 1.
 */
export function codingWeights(header: string): ReadonlyMap<string, number> {
  return new Map(
    header.split(",").map((preference) => [codingOf(preference), weightOf(preference)]),
  );
}

function codingOf(preference: string): string {
  return (preference.split(";")[0] ?? "").trim().toLowerCase();
}

function weightOf(preference: string): number {
  const weight = /;\s*q\s*=\s*([0-9.]+)\s*$/i.exec(preference)?.[1];
  return weight === undefined ? 1 : Number(weight);
}
