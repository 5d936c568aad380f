// What ends a command early, with a sentence for whoever typed it.

/** The command does not do what was asked. `exitCode`: 1, or 2 where the command itself was not understood. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly exitCode: 1 | 2;

  constructor(message: string, options: { readonly exitCode?: 1 | 2; readonly cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.exitCode = options.exitCode ?? 1;
  }
}
