// An example call of an app, from what its `main.py` looks like: the first public function with
// values for its parameters.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { shellQuoted } from "@slipway/server/src/lib/shell-quoted.ts";
import type { AppFolder } from "./app-folder.ts";

/** A function, and values for its parameters. */
export type CallExample = {
  /** Empty: the app has a server of its own. */
  readonly endpoint: string;
  readonly values: Readonly<Record<string, unknown>>;
};

/** Never fails: the example is a hint, and the app's author knows better. */
export function exampleOf({ path, custom }: Pick<AppFolder, "path" | "custom">): CallExample {
  const main = join(path, "main.py");
  if (custom !== null || !existsSync(main)) return { endpoint: "", values: {} };
  const found = /^(?:async )?def ([A-Za-z]\w*)\(((?:[^()]|\([^()]*\))*)\)/m.exec(
    readFileSync(main, "utf8"),
  );
  const [, endpoint = "run", parameters = ""] = found ?? [];
  const values = parameters
    .split(",")
    .map((one) => /^\s*([A-Za-z]\w*)\s*(?::\s*([\w.]+)[^=]*)?(?:=\s*(.*?)\s*)?$/s.exec(one))
    .flatMap((match) =>
      match === null ? [] : [[match[1] ?? "", valueOf(match[2], match[3])] as const],
    )
    .filter(([name]) => name !== "run_id");
  return { endpoint, values: Object.fromEntries(values) };
}

/** The `slipway call` of it. */
export function slipwayCall(app: string, { endpoint, values }: CallExample): string {
  const words = Object.entries(values).map(([name, value]) =>
    quoted(`${name}=${typeof value === "string" ? value : JSON.stringify(value)}`),
  );
  // A page is read; calls of functions are posted.
  const method = endpoint === "" ? ["--method GET"] : [];
  return ["slipway call", quoted(`${app}/${endpoint}`), ...words, ...method].join(" ");
}

/**
 * The same with curl; `url` is the app's. `token`: where it comes from, such as `$SLIPWAY_TOKEN`;
 * null: none is needed.
 */
export function curlCall(
  url: string,
  { endpoint, values }: CallExample,
  token: string | null,
): string {
  const header = token === null ? [] : [`-H "Authorization: Bearer ${token}"`];
  if (endpoint === "") return ["curl -w '\\n'", ...header, quoted(`${url}/`)].join(" ");
  const body = `-d ${quoted(JSON.stringify(values))}`;
  return [
    "curl -w '\\n'",
    ...header,
    "-H 'Content-Type: application/json'",
    body,
    quoted(`${url}/${endpoint}`),
  ].join(" ");
}

function valueOf(kind: string | undefined, given: string | undefined): unknown {
  const text = /^(["'])(.*)\1$/s.exec(given ?? "")?.[2];
  if (text !== undefined) return text;
  if (given !== undefined && /^-?\d+(\.\d+)?$/.test(given)) return Number(given);
  if (given === "True" || given === "False") return given === "True";
  return { int: 1, float: 1.5, bool: true, list: [], dict: {} }[kind ?? ""] ?? "hello";
}

/** A word for a shell, quoted only where that is needed. */
export function quoted(text: string): string {
  return /^[\w./:=@,+-]+$/.test(text) ? text : shellQuoted(text);
}
