// Finds the known name that an unknown one was probably meant to be, for error messages.

/**
 * The name with the smallest edit distance to `given`, unless it is too far off (more than a third of its length, at least 2).
 */
export function closestName(given: string, known: Iterable<string>): string | undefined {
  let best: { name: string; distance: number } | undefined;
  for (const name of known) {
    const distance = editDistance(given.toLowerCase(), name.toLowerCase());
    if (best === undefined || distance < best.distance) best = { name, distance };
  }
  if (best === undefined) return undefined;
  return best.distance <= Math.max(2, Math.floor(best.name.length / 3)) ? best.name : undefined;
}

/** Levenshtein distance in one row of memory. Inputs are cut to 100 characters. */
function editDistance(a: string, b: string): number {
  const left = a.slice(0, 100);
  const right = b.slice(0, 100);
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i++) {
    const next = [i];
    for (let j = 1; j <= right.length; j++) {
      const change = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1);
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, change));
    }
    row = next;
  }
  return row[right.length] ?? 0;
}
