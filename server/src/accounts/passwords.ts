// Passwords of people: stored as scrypt hashes that include their parameters, so that these can be
// raised later.
import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";
import { Fault } from "#lib/fault.ts";
import { Gate } from "#lib/gate.ts";

type Cost = { readonly N: number; readonly r: number; readonly p: number };

/** 32 MB and some 60 ms per try: the minimum in OWASP's password storage sheet for p = 3. */
const cost: Cost = { N: 2 ** 15, r: 8, p: 3 };
const hashBytes = 32;
/** A stored hash: its parameters, the salt and the hash itself; the last two in base64url. */
const form = /^scrypt\$N=(\d{1,8}),r=(\d{1,3}),p=(\d{1,3})\$([\w-]+)\$([\w-]+)$/;
/** All our hashes need less memory; a row with larger parameters is not ours. */
const memoryBytesMax = 256 * 1024 * 1024;
/** No real password is longer, but the text of a request could have a megabyte. */
const passwordLengthMax = 1_000;
/** How many of Node's four threads may hash passwords; the others read files and look up names. */
const hashesMax = 2;
/** A queue of this length takes some seconds; in a longer one, callers would give up. */
const waitingMax = 60;

/**
 * Limits concurrent hashing, so that a client with very many tries cannot exhaust memory and
 * processors.
 */
export function passwordGate(): Gate {
  const text = "Too many people are signing in at the moment; try again in a few seconds.";
  const refusal = (): Fault => new Fault("unavailable", text, { retryAfterSeconds: 3 });
  return new Gate({ max: hashesMax, waitingMax, refusal });
}

/** Returns `scrypt$N=…,r=…,p=…$<salt>$<hash>`, with salt and hash in base64url. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  return format(salt, await derive(password, { salt, cost }));
}

/**
 * A hash that matches no password, available at once; comparing with it takes as long as with any
 * other.
 */
export function nobodysHash(): string {
  return format(randomBytes(16), randomBytes(hashBytes));
}

/** True when the hash was made from this password. False for a hash of unknown form. */
export async function isPassword(password: string, hash: string): Promise<boolean> {
  const [, N, r, p, salt, expectedText] = form.exec(hash) ?? [];
  if (!salt || !expectedText || password.length > passwordLengthMax) return false;
  const actual = await derive(password, {
    salt: Buffer.from(salt, "base64url"),
    cost: { N: Number(N), r: Number(r), p: Number(p) },
  });
  const expected = Buffer.from(expectedText, "base64url");
  return expected.length === actual.length && timingSafeEqual(expected, actual);
}

function format(salt: Buffer, hash: Buffer): string {
  return `scrypt$N=${cost.N},r=${cost.r},p=${cost.p}$${salt.toString("base64url")}$${hash.toString("base64url")}`;
}

function derive(password: string, input: { salt: Buffer; cost: Cost }): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const options = { ...input.cost, maxmem: memoryBytesMax };
    scrypt(password.normalize("NFKC"), input.salt, hashBytes, options, (error, hash) =>
      error === null ? resolve(hash) : reject(error),
    );
  });
}
