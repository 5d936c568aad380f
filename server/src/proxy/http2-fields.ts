// The fields of an answer in the form that Node's HTTP/2 takes. Pure.
import type { OutgoingHttpHeaders } from "node:http2";

/** Fields that concern one connection of HTTP/1.1, which HTTP/2 forbids (RFC 9113, 8.2.2). */
const connectionFields: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);

/**
 * Turns a list (name, value, name, value …) into an object. The values of a repeated field are
 * joined by commas, except cookies, which become an array (RFC 9110, 5.3).
 */
export function http2Fields(list: readonly string[]): OutgoingHttpHeaders {
  // Without a prototype, `__proto__` is a name like any other.
  const fields = Object.create(null) as Record<string, string | string[]>;
  for (let index = 0; index + 1 < list.length; index += 2) {
    const name = (list[index] ?? "").toLowerCase();
    const value = list[index + 1] ?? "";
    if (connectionFields.has(name)) continue;
    const earlier = fields[name];
    if (name === "set-cookie") {
      const cookies = Array.isArray(earlier) ? earlier : [];
      fields[name] = [...cookies, value];
    } else {
      fields[name] = earlier === undefined ? value : `${String(earlier)}, ${value}`;
    }
  }
  return fields;
}
