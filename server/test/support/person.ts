// People of tests to which it does not matter how passwords are hashed: to do that as the platform does takes a fifth of a
// second of a processor, and again for each sign-in.
import { randomBytes, randomUUID, scryptSync } from "node:crypto";
import { insertPassword, insertPerson } from "#accounts/account-store.ts";
import { nobodysHash } from "#accounts/passwords.ts";
import type { Db } from "#store/database.ts";

/** What the platform takes for a hash, since it reads there what it cost. */
const cost = { N: 1024, r: 1, p: 1 };

/** As `createPerson` of accounts. Without a password there is one that nobody knows. Returns the id. */
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
