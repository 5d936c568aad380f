// Reads the header fields of a call once and composes from them the head that its replica gets. Pure; works on the flat
// list that node's parser makes, since making an object of it costs more than all that is done here.
import { Fault } from "#lib/fault.ts";
import { addConnectionNames, fieldKind, isPlainConnection, type FieldKind } from "./fields.ts";

/** What a call's fields say to the proxy, and what is passed on. */
export class RequestFields {
  /** Lines that the replica gets, each with its line end; without request line, framing and what the proxy adds. */
  passed = "";
  authorization: string | undefined = undefined;
  host: string | undefined = undefined;
  /** Bytes; -1: no such field. Node's parser has checked it. */
  contentLength = -1;
  isChunked = false;
  expectsContinue = false;
  /** The client reads trailers of the answer. */
  takesTrailers = false;
  /** What came from proxies before this one. */
  forwardedFor: string | undefined = undefined;
  forwardedProto: string | undefined = undefined;
  forwardedHost: string | undefined = undefined;
  /** Why it cannot be passed on. */
  refused: string | null = null;
}

/** A `Fault` when the fields cannot be passed on. `keepsAuthorization`: the app is open, so that its callers' tokens are its own affair. */
export function readRequestFields(rawHeaders: readonly string[], keepsAuthorization: boolean): RequestFields | Fault {
  const fields = new RequestFields();
  let passed = "";
  let nominated: Set<string> | undefined;
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? "";
    const value = rawHeaders[index + 1] ?? "";
    const kind = fieldKind(name);
    if (isPassed(kind, keepsAuthorization)) passed += `${name}: ${value}\r\n`;
    if (kind === "pass") continue;
    if (kind === "connection" && !isPlainConnection(value)) addConnectionNames(value, (nominated ??= new Set()));
    else take(fields, kind, value);
  }
  if (fields.refused !== null) return new Fault("malformed", fields.refused);
  fields.passed = nominated === undefined ? passed : withoutNominated(passed, nominated);
  return fields;
}

function isPassed(kind: FieldKind, keepsAuthorization: boolean): boolean {
  if (kind === "pass" || kind === "host" || kind === "trailer") return true;
  return kind === "authorization" && keepsAuthorization;
}

function take(fields: RequestFields, kind: FieldKind, value: string): void {
  switch (kind) {
    case "authorization":
      fields.authorization ??= value;
      break;
    case "host":
      if (fields.host !== undefined) fields.refused = "The field Host is given twice.";
      fields.host = value;
      break;
    case "content-length":
      fields.contentLength = Number(value);
      break;
    case "transfer-encoding":
      if (fields.isChunked || value.toLowerCase() !== "chunked") {
        fields.refused = "The only transfer coding that is understood is chunked.";
      }
      fields.isChunked = true;
      break;
    case "expect":
      fields.expectsContinue = value.toLowerCase() === "100-continue";
      break;
    case "te":
      fields.takesTrailers ||= /(?:^|,)\s*trailers\s*(?:;|,|$)/i.test(value);
      break;
    case "forwarded-for":
      fields.forwardedFor = fields.forwardedFor === undefined ? value : `${fields.forwardedFor}, ${value}`;
      break;
    case "forwarded-proto":
      fields.forwardedProto ??= value;
      break;
    case "forwarded-host":
      fields.forwardedHost ??= value;
      break;
    default:
  }
}

/** Takes out the lines that a `Connection` field names. */
function withoutNominated(passed: string, nominated: ReadonlySet<string>): string {
  const lines = passed.split("\r\n").slice(0, -1);
  const kept = lines.filter((line) => !nominated.has(line.slice(0, line.indexOf(":")).toLowerCase()));
  return kept.map((line) => `${line}\r\n`).join("");
}

/**
 * The fields that tell the app about its client (de facto standard; the newer `Forwarded` is not passed on). `trusts`:
 * what proxies before this one say about the client is believed and passed on.
 */
export function forwardedLines(fields: RequestFields, address: string, trusts: boolean): string {
  const before = trusts ? fields.forwardedFor : undefined;
  const proto = (trusts ? fields.forwardedProto : undefined) ?? "http";
  const host = (trusts ? fields.forwardedHost : undefined) ?? fields.host;
  const chain = before === undefined ? address : `${before}, ${address}`;
  const hostLine = host === undefined ? "" : `X-Forwarded-Host: ${host}\r\n`;
  return `X-Forwarded-For: ${chain}\r\nX-Forwarded-Proto: ${proto}\r\n${hostLine}`;
}
