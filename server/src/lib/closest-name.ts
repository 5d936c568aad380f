// Finds the known name that an unknown one was probably meant to be, for error messages.

/**
 * Returns the known name with the smallest edit distance to `unknownName`; undefined when that
 * distance is too large. The maximum is 1 when one of the two names has fewer than 5 characters,
 * else a third of the known name's length, but at least 2.
 */
export function closestName(unknownName: string, known: Iterable<string>): string | undefined {
  let best: { name: string; distance: number } | undefined;
  for (const name of known) {
    const distance = editDistance(unknownName.toLowerCase(), name.toLowerCase());
    if (best === undefined || distance < best.distance) best = { name, distance };
  }
  if (best === undefined) return undefined;
  const isShort = Math.min(unknownName.length, best.name.length) < 5;
  const distanceMax = isShort ? 1 : Math.max(2, Math.floor(best.name.length / 3));
  return best.distance <= distanceMax ? best.name : undefined;
}

/**
 * Returns the Levenshtein distance, where two neighbours that have changed places count as one
 * edit. Compares only the first 100 characters.
 */
function editDistance(a: string, b: string): number {
  const left = a.slice(0, 100);
  const right = b.slice(0, 100);
  // `row[j]` is the distance between the first `i` characters of `left` and `j` of `right`;
  // `before` is the row before `row`.
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  let before = row;
  for (let i = 1; i <= left.length; i++) {
    const next = [i];
    for (let j = 1; j <= right.length; j++) {
      const isSame = left[i - 1] === right[j - 1];
      const change = (row[j - 1] ?? 0) + (isSame ? 0 : 1);
      const isSwap = i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1];
      const swap = isSwap ? (before[j - 2] ?? 0) + 1 : Infinity;
      const omission = (row[j] ?? 0) + 1;
      const insertion = (next[j - 1] ?? 0) + 1;
      next.push(Math.min(omission, insertion, change, swap));
    }
    before = row;
    row = next;
  }
  return row[right.length] ?? 0;
}
