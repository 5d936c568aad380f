// Texts of all characters for property tests.
import fc from "fast-check";

/** The first and the number of the halves of UTF-16 pairs, which are no characters. */
const surrogates = { from: 0xd800, count: 0x800 };

/** Like fast-check's unit "binary", which takes two seconds in each process to list them all. */
const character = fc.integer({ min: 0, max: 0x10ffff - surrogates.count }).map((place) => {
  return String.fromCodePoint(place < surrogates.from ? place : place + surrogates.count);
});

/** Texts of characters from the whole of Unicode. */
export function anyText(constraints: { readonly maxLength?: number } = {}): fc.Arbitrary<string> {
  return fc.string({ ...constraints, unit: character });
}
