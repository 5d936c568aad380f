// What the simulation breaks on purpose, to see that a promise is found broken then: guards are
// taken out of statements on their way to the database, or statements are answered before they are
// carried out.

/** A guard that is missing. */
export type Mutation =
  | "starts that came to nothing give their numbers back"
  | "the epoch guard is taken out"
  | "lost runs are not taken over"
  | "starts are written after sending"
  | "answers are acknowledged before their ends are stored"
  | "runs are accepted before they are stored";

/**
 * What becomes of a statement. `instead`: it is answered so, and not carried out; `early`: and
 * carried out later.
 */
export type Treatment = {
  readonly text: string;
  readonly instead?: readonly Row[];
  readonly early?: readonly Row[];
};

type Row = Readonly<Record<string, unknown>>;

/** What of a statement decides. */
export type Treated = {
  readonly text: string;
  readonly parameters: readonly unknown[];
  /** In a transaction that ends runs. */
  readonly endsRuns: boolean;
};

/** Applies the mutation. */
export function treat(mutation: Mutation | null, statement: Treated): Treatment {
  const { text, parameters, endsRuns } = statement;
  switch (mutation) {
    case null:
      return { text };
    case "starts that came to nothing give their numbers back":
      return {
        text: text.replace(
          "attempt = given.attempt",
          "attempt = given.attempt, starts = given.attempt",
        ),
      };
    case "the epoch guard is taken out":
      return { text: withoutGuard(text) };
    case "lost runs are not taken over":
      return isTakingOver(text) ? { text, instead: [] } : { text };
    case "starts are written after sending":
      return isStart(text) ? { text, early: startedOf(text, parameters) } : { text };
    case "answers are acknowledged before their ends are stored":
      return text === "commit" && endsRuns ? { text, early: [] } : { text };
    case "runs are accepted before they are stored":
      return isAcceptance(text) ? { text, early: [] } : { text };
  }
}

/** Runs and the epochs that the statement's writer believes to hold; null: it does not say. */
export function claimsOf(text: string, parameters: readonly unknown[]): [string, number][] | null {
  if (!text.includes("as given (id, epoch")) return null;
  const [ids, epochs] = parameters.filter((one) => Array.isArray(one));
  if (ids === undefined || epochs === undefined)
    throw new Error(`a statement has another form now: ${text}`);
  return ids.map((id, index) => [String(id), Number(epochs[index])]);
}

/** True for the statement that ends runs. */
export function isEnd(text: string): boolean {
  return text.includes("set state = given.state");
}

function withoutGuard(text: string): string {
  return text.replace(
    /lease_epoch = given\.epoch and lease_holder = (\$\d+)/,
    "(lease_epoch >= 0 or lease_holder = $1)",
  );
}

function isTakingOver(text: string): boolean {
  return (
    text.includes("with lost as") ||
    (text.includes("with free as") && text.includes("(state = 'running')"))
  );
}

function isStart(text: string): boolean {
  return text.includes("set state = 'running', replica_id");
}

function isAcceptance(text: string): boolean {
  return text.includes("insert into runs (");
}

/** As if each of them had been written. */
function startedOf(text: string, parameters: readonly unknown[]): Row[] {
  return (claimsOf(text, parameters) ?? []).map(([id, epoch]) => ({ id, epoch }));
}
