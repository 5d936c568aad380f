// Compares the settings of two releases. Pure.

type Settings = Readonly<Record<string, unknown>>;

/** A setting that both do not have alike, as texts. */
export type Difference = { readonly name: string; readonly from: string; readonly to: string };

/** Only what differs, by name. */
export function differencesOf(from: Settings, to: Settings): readonly Difference[] {
  const names = new Set([...Object.keys(from), ...Object.keys(to)]);
  return [...names]
    .toSorted()
    .map((name) => ({ name, from: textOf(valueOf(from, name)), to: textOf(valueOf(to, name)) }))
    .filter((one) => one.from !== one.to);
}

function valueOf(settings: Settings, name: string): unknown {
  return Object.hasOwn(settings, name) ? settings[name] : undefined;
}

/** A value as it is shown. */
function textOf(value: unknown): string {
  if (value === null || value === undefined || value === "") return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}
