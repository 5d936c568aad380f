// Chooses which names get certificates when there are more than the platform keeps. Pure.
import { getOrInsert } from "#lib/get-or-insert.ts";

/** A name's project; null: the name is the platform's own. */
type Owned = { readonly project: string | null };

/**
 * The names that get certificates: all of the platform's own, then one of each project in turn, in
 * the order in which they are given, so that no project's names keep out those of another.
 */
export function chosenNames<Name extends Owned>(names: readonly Name[], max: number): Name[] {
  if (names.length <= max) return [...names];
  const own = names.filter(({ project }) => project === null);
  const byProject = new Map<string, Name[]>();
  for (const name of names)
    if (name.project !== null) getOrInsert(byProject, name.project, () => []).push(name);
  const turns = [...byProject.values()].flatMap((ofOne) =>
    ofOne.map((name, turn) => ({ name, turn })),
  );
  const inTurn = turns.toSorted((one, other) => one.turn - other.turn).map(({ name }) => name);
  return [...own, ...inTurn].slice(0, max);
}
