// The error that ends a command early with a message for the user.

/** The command failed. `exitCode`: 1, or 2 when the command itself was not understood. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly exitCode: 1 | 2;

  constructor(message: string, options: { readonly exitCode?: 1 | 2; readonly cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.exitCode = options.exitCode ?? 1;
  }
}
