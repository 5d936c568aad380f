// Makes names in the engine that no app can know or work out. An app that knows the name of an
// image or of a cache mount could use it in a build, and the ids of projects and builds are no
// secrets.
import { createHmac, randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { CannotStart } from "#lib/cannot-start.ts";
import { writeFileSafely } from "#lib/write-file.ts";

/**
 * Makes names of 32 hexadecimal digits. The names of one id differ for each `use`.
 */
export type KeyedNames = (use: "image" | "step" | "cache" | "interface", id: string) => string;

/** Returns the function that makes names with this key. */
export function keyedNames(key: Buffer): KeyedNames {
  return (use, id) => createHmac("sha256", key).update(`${use} ${id}`).digest("hex").slice(0, 32);
}

/**
 * Returns the function that makes names with the key in this file, which is created once. If the
 * file is lost, builds begin with empty caches.
 */
export function openKeyedNames(file: string): KeyedNames {
  if (!existsSync(file)) writeFileSafely(file, `${randomBytes(32).toString("hex")}\n`);
  const text = readFileSync(file, "utf8").trim();
  if (/^[0-9a-f]{64}$/.test(text)) return keyedNames(Buffer.from(text, "hex"));
  throw new CannotStart(
    `${file} does not hold 64 hexadecimal digits. Remove it; the platform makes a new one.`,
  );
}
