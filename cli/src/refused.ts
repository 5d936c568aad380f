// The error that ends a command early with a message for the user, and the exit codes.

/** The exit codes of failures; 0 is success, and 130 that Ctrl-C ended the command. */
export const exitCodes = {
  /** The command was refused, or it failed. */
  failed: 1,
  /** The command was not understood. */
  misused: 2,
  /** Nobody is signed in, or who is may not do it. */
  denied: 3,
  /** What was named does not exist. */
  notFound: 4,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** The command failed. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly exitCode: ExitCode;

  constructor(
    message: string,
    options: { readonly exitCode?: ExitCode; readonly cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.exitCode = options.exitCode ?? exitCodes.failed;
  }
}

/** The command was not understood. */
export function misuse(message: string, cause?: unknown): Refused {
  return new Refused(message, { exitCode: exitCodes.misused, cause });
}
