// Custom apps listen where their start command says. Several replicas on one machine cannot share that port, so a port
// that the command names as an argument is replaced. Pure.

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
