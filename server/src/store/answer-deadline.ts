// The client's side of the deadline of statements: a server that stands still answers nothing, not even that a statement
// took too long. Its connection is cut then, as nobody can know what became of the statement.
import type { ClientBase } from "pg";
import type { Clock } from "#lib/clock.ts";

type Query = (...given: readonly unknown[]) => unknown;
type Callback = (...answer: readonly unknown[]) => void;

/** From now on the connection is cut when a statement on it has no answer within `waitMs`; the statement fails then. */
export function cutWithoutAnswer(client: ClientBase, waitMs: number, clock: Clock): void {
  // The driver's overloads all come down to this: it calls back when the last parameter is a function, else it promises.
  const query = client.query.bind(client) as Query;
  // With a statement under way it destroys the connection instead of saying goodbye.
  const cut = (): void => void (client as ClientBase & { end(): Promise<void> }).end();
  const bounded: Query = (...given) => {
    const answered = clock.after(waitMs, cut);
    const callback = given.at(-1);
    if (typeof callback === "function") {
      const tell: Callback = (...answer) => {
        answered();
        (callback as Callback)(...answer);
      };
      return query(...given.slice(0, -1), tell);
    }
    const answer = query(...given) as Promise<unknown>;
    answer.then(answered, answered);
    return answer;
  };
  client.query = bounded as ClientBase["query"];
}
