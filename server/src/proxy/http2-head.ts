// Reads the head of an HTTP/2 request, and turns it into the fields that the same request has in
// HTTP/1.1. Node's library has checked what RFC 9113 demands of a head. Here everything is checked
// that a replica could read differently, once it is written as HTTP/1.1. Pure.
import { METHODS } from "node:http";
import { tokenForm, valueCharacters } from "./fields.ts";
import {
  headBytesMax,
  noHost,
  notAllowed,
  tooLong,
  unmetExpectation,
  type Refusal,
} from "./malformed.ts";

/** A head that can be served. */
export type Http2Head = {
  readonly method: string;
  /** The path and query, which begin with a slash. */
  readonly url: string;
  readonly host: string;
  /** The fields in the format of Node's parser: name, value, name, value … */
  readonly fields: readonly string[];
};

/** A slash, and then no blanks and no control characters. */
const pathForm = /^\/[\x21-\x7e]*$/;
const nameForm = new RegExp(`^${tokenForm}$`);
const valueForm = new RegExp(`^[${valueCharacters}]*$`);

/**
 * Reads the head; a refusal when it is not served. `list`: the fields in the format of Node's
 * parser, including the fields whose names begin with a colon.
 */
export function readHttp2Head(list: readonly string[]): Http2Head | Refusal {
  // `hosts`: how many fields `host` there are; `bytes`: the length of all names and values.
  const head = { method: "", url: "", authority: "", host: "", hosts: 0, bytes: 0 };
  const fields: string[] = [];
  const cookies: string[] = [];
  for (let index = 0; index + 1 < list.length; index += 2) {
    const name = list[index] ?? "";
    const value = list[index + 1] ?? "";
    head.bytes += name.length + value.length;
    if (!valueForm.test(value)) return malformed(`the field ${name} has a control character`);
    if (name === ":method") head.method = value;
    else if (name === ":path") head.url = value;
    else if (name === ":authority") head.authority = value;
    else if (name === "host") {
      head.host = value;
      head.hosts++;
    } else if (name === "cookie") cookies.push(value);
    else if (!name.startsWith(":")) {
      if (!nameForm.test(name)) return malformed("the name of a field has a wrong character");
      fields.push(name, value);
    }
  }
  // Clients may divide their cookies, but HTTP/1.1 has a single field for them (RFC 9113, 8.2.3).
  if (cookies.length > 0) fields.push("cookie", cookies.join("; "));
  const { method, url, authority, hosts, bytes } = head;
  const host = authority === "" ? head.host : authority;
  if (bytes > headBytesMax) return tooLong(textOf(method, url, fields));
  if (method === "CONNECT" || !METHODS.includes(method)) return notAllowed(method);
  if (!pathForm.test(url)) return malformed("its path must begin with a slash, without blanks");
  if (host === "") return noHost;
  const isOneHost = hosts === 0 || (hosts === 1 && head.host.toLowerCase() === host.toLowerCase());
  if (!isOneHost) return malformed("Host and :authority are not the same");
  if (hasUnmetExpectation(fields)) return unmetExpectation;
  return { method, url, host, fields: ["host", host, ...fields] };
}

function malformed(why: string): Refusal {
  return { status: "400 Bad Request", message: `The request cannot be served: ${why}.` };
}

function hasUnmetExpectation(fields: readonly string[]): boolean {
  // Names have even indexes, and the value of each follows it.
  return fields.some(
    (name, index) =>
      index % 2 === 0 && name === "expect" && fields[index + 1]?.toLowerCase() !== "100-continue",
  );
}

/** The head in the form of HTTP/1.1. */
function textOf(method: string, url: string, fields: readonly string[]): string {
  let text = `${method} ${url} HTTP/1.1\r\n`;
  for (let index = 0; index < fields.length; index += 2)
    text += `${fields[index]}: ${fields[index + 1]}\r\n`;
  return text;
}
