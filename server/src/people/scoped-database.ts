// Lets better-auth, which knows one database, work within a transaction of ours: what it is given looks like the
// database, and is the transaction wherever `within` is under way. So what it changes and what the audit log says of it
// are kept together or not at all.
import { AsyncLocalStorage } from "node:async_hooks";
import type { Db, Tx } from "#store/database.ts";

/** The database as better-auth sees it. */
export class ScopedDatabase {
  readonly #scope = new AsyncLocalStorage<Tx>();
  /** Hand this to better-auth. */
  readonly view: Db;

  constructor(db: Db) {
    this.view = new Proxy(db, {
      get: (_, name) => {
        const target = this.#scope.getStore() ?? db;
        const found: unknown = Reflect.get(target, name, target);
        return typeof found === "function" ? (found.bind(target) as unknown) : found;
      },
    });
  }

  /** Runs `work`; all that it does with the view is part of the transaction. */
  within<T>(tx: Tx, work: () => Promise<T>): Promise<T> {
    return this.#scope.run(tx, work);
  }
}
