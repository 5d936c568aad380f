// How well a text fits what is typed in the command palette. Pure.

const startScore = 4;
const wordScore = 3;
const insideScore = 2;
/**
 * The largest score of letters that only come in the same order; they are further apart, the less
 * they score.
 */
const scatteredScore = 1;

/** The sum over the typed words; null: one of them does not fit at all. More is better. */
export function matchScore(typed: string, text: string): number | null {
  const words = plain(typed)
    .split(/\s+/)
    .filter((word) => word !== "");
  const whole = plain(text);
  let sum = 0;
  for (const word of words) {
    const score = wordScoreOf(word, whole);
    if (score === null) return null;
    sum += score;
  }
  return sum;
}

/**
 * The items that fit, best first; equally good ones, and all while nothing is typed, in their
 * order.
 */
export function matching<Item>(
  typed: string,
  items: readonly Item[],
  textOf: (item: Item) => string,
): Item[] {
  return items
    .flatMap((item) => {
      const score = matchScore(typed, textOf(item));
      return score === null ? [] : [{ item, score }];
    })
    .toSorted((one, other) => other.score - one.score)
    .map(({ item }) => item);
}

function plain(text: string): string {
  return text.normalize("NFKD").replaceAll(/\p{M}/gu, "").toLowerCase();
}

function wordScoreOf(word: string, text: string): number | null {
  if (text.startsWith(word)) return startScore;
  for (let at = text.indexOf(word); at !== -1; at = text.indexOf(word, at + 1)) {
    if (!/[\p{L}\p{N}]/u.test(text.charAt(at - 1))) return wordScore;
  }
  return text.includes(word) ? insideScore : scattered(word, text);
}

/** Letters in the same order; as near to each other as the first ones are. */
function scattered(word: string, text: string): number | null {
  const first = text.indexOf(word.charAt(0));
  let at = first - 1;
  for (const letter of word) {
    at = text.indexOf(letter, at + 1);
    if (at === -1) return null;
  }
  return (scatteredScore * word.length) / (at - first + 1);
}
