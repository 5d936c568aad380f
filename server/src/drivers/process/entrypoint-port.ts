// Custom apps listen where their start command says. Several replicas on one machine cannot share
// that port, so this file replaces a port that the command names as an argument. It also replaces
// "every address": otherwise anyone who can reach the machine could call the app without a token,
// bypassing the platform. Pure.

/**
 * Replaces `from` with `to` in each argument that is the port `from`, or ends with it after a colon
 * or an equals sign (`--port 8000`, `--port=8000`, `0.0.0.0:8000`); null when no argument does.
 * Never changes the program itself, nor the text of `sh -c` unless that text ends in this way.
 */
export function replacePort(
  entrypoint: readonly string[],
  from: number,
  to: number,
): string[] | null {
  const form = new RegExp(`^((?:.*[:=])?)${from}$`, "s");
  let isFound = false;
  const replaced = entrypoint.map((argument, index) => {
    const before = index === 0 ? undefined : form.exec(argument)?.[1];
    if (before === undefined) return argument;
    isFound = true;
    return `${before}${to}`;
  });
  return isFound ? replaced : null;
}

/** The address for calls to replicas of this machine. */
const loopback = "127.0.0.1";
/**
 * Finds where a text names every address. Leaves alone parts of other addresses, ranges such as
 * `0.0.0.0/0`, and slices of code such as `rows[::]`. In the text of a shell, words end at spaces
 * and quotes.
 */
const everyAddress = new RegExp(
  [
    // 0.0.0.0
    String.raw`(?<![\d.])0\.0\.0\.0(?![\d.]|/\d)`,
    // [::]
    String.raw`(?<![\w\])])\[::\](?=[:\s"']|$)`,
    // ::
    String.raw`(?<=^|[=\s]["']?)::(?=[\s"']|$)`,
    // The missing address before a port, as in :8000.
    String.raw`(?<=^|[=\s]["']?)(?=:\d+(?:[\s"']|$))`,
  ].join("|"),
  "g",
);

/**
 * Uses the loopback address wherever an argument names every address (`0.0.0.0`, `[::]:8000`,
 * `--host=::`, `:8000`), also in the text of `sh -c`. Never changes the program itself.
 */
export function keepOnLoopback(entrypoint: readonly string[]): readonly string[] {
  return entrypoint.map((argument, index) =>
    index === 0 ? argument : argument.replaceAll(everyAddress, loopback),
  );
}
