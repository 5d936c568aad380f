// The keys that work everywhere: which page a key after "g" opens, and whether keys without Ctrl
// are wanted at all.

/** Pages of a project and of an app by the key after "g"; the names are those of the tabs. */
export const pageKeys: Readonly<Record<string, string>> = {
  a: "Apps",
  b: "Builds",
  d: "Domains",
  e: "Releases",
  k: "API keys",
  l: "Logs",
  m: "Members",
  o: "Overview",
  r: "Runs",
  s: "Settings",
  u: "Usage",
  x: "Secrets",
};

const offKey = "slipway.single-keys";

/**
 * False: somebody switched keys without Ctrl off, because a voice or another program types them.
 */
export function areSingleKeysOn(): boolean {
  return localStorage.getItem(offKey) !== "off";
}

/** Kept by this browser. */
export function setSingleKeys(areOn: boolean): void {
  if (areOn) localStorage.removeItem(offKey);
  else localStorage.setItem(offKey, "off");
}

/** True when what is typed goes into a field, or a dialog is open. */
export function isForOthers({ target, isComposing }: KeyboardEvent): boolean {
  if (isComposing || document.querySelector("dialog[open], [role=dialog]") !== null) return true;
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || target.matches("input, textarea, select"))
  );
}
