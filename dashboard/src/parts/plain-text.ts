// Text that others named, made fit to be shown: without the codes that colour terminals, and
// without characters that hide or turn around what is near them.

/** Codes for terminals: colours, titles, links, character sets. */
const terminalCodes =
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[@-Z\\-_])/g;

/** Control characters but the tab, and those that turn the direction of what follows. */
const unseen = /[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;

/** The text as it is shown. */
export function plainText(text: string): string {
  return text.replaceAll(terminalCodes, "").replaceAll(unseen, "\ufffd");
}
