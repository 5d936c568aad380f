// Compares secrets and signatures.
import { hash, timingSafeEqual } from "node:crypto";

/** Whether the texts are the same. The time that this takes does not show where they differ. */
export function isSameText(one: string, other: string): boolean {
  // Hashes have the same length, which `timingSafeEqual` requires.
  return timingSafeEqual(hash("sha256", one, "buffer"), hash("sha256", other, "buffer"));
}
