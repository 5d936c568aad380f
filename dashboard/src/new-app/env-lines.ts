// Reads lines such as NAME=value, as files that are called .env have them. Pure.

/** One environment variable. */
export type Variable = { readonly name: string; readonly value: string };

const lineForm = /^\s*(?:export\s+)?([A-Za-z0-9_.-]+)\s*=\s*(.*?)\s*$/;

/** Comments and lines of another form are left out; quotes around a value are taken off. */
export function readEnvLines(text: string): Variable[] {
  return text.split(/\r?\n/).flatMap((line) => {
    const [, name, value = ""] = lineForm.exec(line) ?? [];
    return name === undefined ? [] : [{ name, value: unquoted(value) }];
  });
}

function unquoted(value: string): string {
  const [, quote, inner = ""] = /^(["'])(.*)\1$/.exec(value) ?? [];
  if (quote === undefined) return value;
  return quote === '"' ? inner.replaceAll("\\n", "\n").replaceAll('\\"', '"') : inner;
}
