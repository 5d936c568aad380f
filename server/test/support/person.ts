// Creates people for tests in which password hashing does not matter: real hashing takes a fifth of
// a second of CPU time, and again for each sign-in.
import { randomBytes, randomUUID, scryptSync } from "node:crypto";
import { insertPassword, insertPerson } from "#accounts/account-store.ts";
import { nobodysHash } from "#accounts/passwords.ts";
import type { Db } from "#store/database.ts";

/** Cheap scrypt parameters; the platform accepts them, because it reads them from the hash. */
const cost = { N: 1024, r: 1, p: 1 };

/** Like `createPerson` of accounts. Without a password nobody knows it. Returns the id. */
export async function makePerson(
  db: Db,
  person: { readonly email: string; readonly name: string; readonly password?: string },
): Promise<string> {
  const { email, name, password } = person;
  const id = randomUUID();
  await insertPerson(db, { id, email: email.toLowerCase(), name });
  await insertPassword(db, {
    personId: id,
    passwordHash: password === undefined ? nobodysHash() : quickHash(password),
  });
  return id;
}

function quickHash(password: string): string {
  const salt = randomBytes(16);
  const hash = scryptSync(password.normalize("NFKC"), salt, 32, cost);
  return `scrypt$N=${cost.N},r=${cost.r},p=${cost.p}$${salt.toString("base64url")}$${hash.toString("base64url")}`;
}
