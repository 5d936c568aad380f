// The public keys that verify an export of the audit log: a JWKS, from a file or from a running
// platform.
import { createPublicKey, type JsonWebKey, type KeyObject } from "node:crypto";
import { readFile } from "node:fs/promises";
import { boundedAnswer } from "./bounded-answer.ts";
import { fetchErrorMessage } from "./error-message.ts";
import { Refused } from "./refused.ts";

const answerMs = 30_000;

/**
 * The keys by id. `source`: a file or an http(s) URL. Throws `Refused` with exit code 2 when no
 * keys can be loaded.
 */
export async function readKeys(source: string): Promise<ReadonlyMap<string, KeyObject>> {
  const text = /^https?:\/\//.test(source) ? await fetchText(source) : await fileText(source);
  const keys = keysOf(text);
  if (keys.size > 0) return keys;
  throw refused(
    `${source} contains no public signing keys. The platform's JWKS is at /.well-known/jwks.json.`,
  );
}

function keysOf(text: string): Map<string, KeyObject> {
  const keys = new Map<string, KeyObject>();
  for (const jwk of listOf(text)) {
    // Only keys that can have signed an export; other keys of the set are not needed here.
    if (typeof jwk["kid"] !== "string" || jwk["kty"] !== "RSA") continue;
    try {
      keys.set(jwk["kid"], createPublicKey({ key: jwk as JsonWebKey, format: "jwk" }));
    } catch (error) {
      throw refused(`The key ${JSON.stringify(jwk["kid"])} cannot be read as a public key.`, error);
    }
  }
  return keys;
}

function listOf(text: string): Readonly<Record<string, unknown>>[] {
  try {
    const value: unknown = JSON.parse(text);
    const keys: unknown =
      typeof value === "object" && value !== null && "keys" in value ? value.keys : null;
    return Array.isArray(keys) ? keys.filter(isJwk) : [];
  } catch (error) {
    if (error instanceof SyntaxError) return [];
    throw error;
  }
}

function isJwk(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

async function fileText(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw refused(`The keys cannot be read from ${path}: ${fetchErrorMessage(error)}.`, error);
  }
}

async function fetchText(url: string): Promise<string> {
  try {
    const response = await fetch(url, {
      signal: AbortSignal.timeout(answerMs),
      headers: { accept: "application/json" },
    });
    if (response.ok) return await boundedAnswer(response).text();
    throw new Error(`the status is ${response.status}`);
  } catch (error) {
    throw refused(`The keys cannot be fetched from ${url}: ${fetchErrorMessage(error)}.`, error);
  }
}

function refused(message: string, cause?: unknown): Refused {
  return new Refused(message, { exitCode: 2, cause });
}
