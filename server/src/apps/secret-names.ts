// Checks the name of a secret, which is an environment variable of its app. Names that break every
// app are refused. Other names with an effect are allowed, and the person who sets such a secret
// learns what the name does. Pure.

/** The refused names, with the harm that each would do, and what to do instead. */
const refusals = new Map([
  [
    "PATH",
    "it would replace the whole search path, and no program of an app or its builds would be found. Add to it where the app starts: " +
      '["sh", "-c", "PATH=/cortex/bin:$PATH exec python server.py"], or with ENV in a Dockerfile.',
  ],
  [
    "PYTHONHOME",
    "Python would look for its own modules there and not start. For modules of the app, set PYTHONPATH.",
  ],
]);

/** Names with an effect, and what each does. */
const warnings = new Map([
  ["HOME", "programs look for their settings and caches there instead of in the app's own home"],
  ["TMPDIR", "temporary files go there; it must be a folder that the app may write to"],
  ["VIRTUAL_ENV", "tools take that folder for the app's Python environment"],
  ["PYTHONSTARTUP", "only an interactive Python reads it"],
  [
    "PORT",
    "the platform sets it to the app's port, so an app with its own server does not see this value",
  ],
  [
    "CUDA_VISIBLE_DEVICES",
    "the platform sets it to the cards of the replica, so the app does not see this value",
  ],
]);

/** The form of names that a shell can read. */
const identifier = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Why no secret can have this name, as a sentence; null: it can. */
export function secretNameRefusal(name: string): string | null {
  const reason = refusals.get(name);
  return reason === undefined ? null : `A secret cannot be called ${name}: ${reason}`;
}

/** What a person who sets a secret of this name should know, as a sentence; null: nothing. */
export function secretNameWarning(name: string): string | null {
  if (!identifier.test(name)) {
    return `${name} is not the name of a shell variable: a shell cannot read it, and builds cannot use it; Python can, with os.environ["${name}"].`;
  }
  if (name.startsWith("LD_")) {
    return `${name} changes which libraries every program of the app loads: with a wrong value the app does not start.`;
  }
  if (name.startsWith("SLIPWAY_"))
    return `${name}: names that begin with SLIPWAY_ are the platform's, which may replace it.`;
  const about = warnings.get(name);
  return about === undefined ? null : `${name}: ${about}.`;
}
