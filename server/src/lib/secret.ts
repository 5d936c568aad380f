// Wraps a string that must not leak: logs, JSON, templates and inspection show it as [secret].
import { inspect } from "node:util";

/** A secret, which only `reveal()` returns. */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return "[secret]";
  }

  toJSON(): string {
    return "[secret]";
  }

  [inspect.custom](): string {
    return "[secret]";
  }
}
