// How long the texts are that a regular expression matches: tools that make clients and test data
// read lengths, not patterns.
import { RegExpParser, type AST } from "@eslint-community/regexpp";

/** The lengths of what a pattern matches, in characters; `max` may be Infinity. */
type Lengths = { readonly min: number; readonly max: number };

const nothing: Lengths = { min: 0, max: 0 };
const parser = new RegExpParser();

/**
 * `minLength` and `maxLength` of a JSON Schema, as far as a pattern from `^` to `$` bounds them.
 */
export function patternLengths(pattern: string): { minLength?: number; maxLength?: number } {
  if (!pattern.startsWith("^") || !pattern.endsWith("$")) return {};
  const { min, max } = lengthsOfAny(parser.parsePattern(pattern).alternatives);
  return {
    ...(min === 0 ? {} : { minLength: min }),
    ...(max === Infinity ? {} : { maxLength: max }),
  };
}

function lengthsOfAny(alternatives: readonly AST.Alternative[]): Lengths {
  const all = alternatives.map(({ elements }) => elements.map(lengthsOf).reduce(sum, nothing));
  return {
    min: Math.min(...all.map(({ min }) => min)),
    max: Math.max(...all.map(({ max }) => max)),
  };
}

function sum(one: Lengths, other: Lengths): Lengths {
  return { min: one.min + other.min, max: one.max + other.max };
}

function lengthsOf(element: AST.Element): Lengths {
  switch (element.type) {
    case "Assertion":
      return nothing;
    case "Group":
    case "CapturingGroup":
      return lengthsOfAny(element.alternatives);
    case "Quantifier": {
      const { min, max } = lengthsOf(element.element);
      return { min: min * element.min, max: max === 0 ? 0 : max * element.max };
    }
    case "Backreference":
    case "ExpressionCharacterClass":
      return { min: 0, max: Infinity };
    default:
      return { min: 1, max: 1 };
  }
}
