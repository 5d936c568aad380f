// Custom apps listen where their start command says. Several replicas on one machine cannot share that port, so a port
// that the command names as an argument is replaced; and so is "every address", since whoever reaches the machine could
// else call the app past the platform, without a token. Pure.

/**
 * The start command with `to` wherever an argument is the port `from`, or ends with it after a colon or an equals sign
 * (`--port 8000`, `--port=8000`, `0.0.0.0:8000`); null when no argument does. The program itself and the text of
 * `sh -c` are never changed.
 */
export function replacePort(entrypoint: readonly string[], from: number, to: number): string[] | null {
  const form = new RegExp(`^((?:.*[:=])?)${from}$`, "s");
  let isFound = false;
  const replaced = entrypoint.map((argument, index) => {
    const start = index === 0 ? undefined : form.exec(argument)?.[1];
    if (start === undefined) return argument;
    isFound = true;
    return `${start}${to}`;
  });
  return isFound ? replaced : null;
}

/** Where replicas of this machine are called. */
const loopback = "127.0.0.1";
/** Not a part of another address, and not a range such as `0.0.0.0/0`. */
const everyAddress = /(?<![\d.])0\.0\.0\.0(?![\d.]|\/\d)|\[::\](?=:|$)|(?<=^|=)::$|(?<=^|=)(?=:\d+$)/g;

/**
 * The start command with the loopback address wherever an argument names every address (`0.0.0.0`, `[::]:8000`,
 * `--host=::`, `:8000`), also in the text of `sh -c`; the program itself is never changed.
 */
export function keepOnLoopback(entrypoint: readonly string[]): readonly string[] {
  return entrypoint.map((argument, index) => (index === 0 ? argument : argument.replaceAll(everyAddress, loopback)));
}
