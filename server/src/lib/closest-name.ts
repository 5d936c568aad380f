// Finds the known name that an unknown one was probably meant to be, for error messages.

/**
 * The known name with the smallest edit distance to `unknownName`. Undefined when it is too far: by
 * more than a third of its length, though 2 is always allowed; or when one of the names has fewer
 * than 5 characters, by more than 1.
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
 * Levenshtein distance, where two neighbours that changed places count once. Inputs are cut to 100
 * characters.
 */
function editDistance(a: string, b: string): number {
  const left = a.slice(0, 100);
  const right = b.slice(0, 100);
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  let before = row;
  for (let i = 1; i <= left.length; i++) {
    const next = [i];
    for (let j = 1; j <= right.length; j++) {
      const change = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1];
      const swap = isSwap ? (before[j - 2] ?? 0) + 1 : Infinity;
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, change, swap));
    }
    before = row;
    row = next;
  }
  return row[right.length] ?? 0;
}
