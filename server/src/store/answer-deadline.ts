// The client side of statement deadlines: a server that hangs answers nothing, not even that a statement took too long. Its
// connection is then cut, since the outcome of the statement is unknown.
import type { ClientBase } from "pg";
import type { Clock } from "#lib/clock.ts";

type Query = (...given: readonly unknown[]) => unknown;
type Callback = (...answer: readonly unknown[]) => void;

/** Cuts the connection when a statement on it gets no answer within `waitMs`; the statement then fails. */
export function cutWithoutAnswer(client: ClientBase, waitMs: number, clock: Clock): void {
  // All overloads of the driver come down to this: it calls back if the last parameter is a function, and otherwise returns a
  // promise.
  const query = client.query.bind(client) as Query;
  // While a statement runs, this destroys the connection instead of closing it politely.
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
