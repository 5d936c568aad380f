// Browsers that a person has signed in with keep a cookie that says so (OWASP's device cookie).
// Their tries are counted apart from everybody else's, so nobody can lock a person out by wrong
// passwords, not even from the same address. It gives no access, and a thief of one gets no more
// tries than others.
import { createHmac, randomBytes } from "node:crypto";
import { isSameText } from "#lib/same-text.ts";
import type { By } from "#audit/record.ts";
import { Secret } from "#lib/secret.ts";
import { networkOf } from "#lib/client-address.ts";

const form = /^([0-9a-f-]{36})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/;
const idBytes = 16;
const signaturePurpose = "slipway-device";

type Device = { readonly personId: string; readonly id: string };

/** Who tries: the value of the cookie that came along, or null, and where it comes from. */
export type Trier = { readonly device: string | null; readonly by: By };

/** Makes and reads them with the secret of auth-secret.ts. */
export class DeviceCookies {
  readonly #secret: Secret;

  constructor(secret: Secret) {
    this.#secret = secret;
  }

  /**
   * The value for a person who has just signed in; the one that the browser has is kept if it is
   * theirs.
   */
  valueFor(personId: string, given: string | null): Secret {
    const known = this.#read(given);
    const id = known?.personId === personId ? known.id : randomBytes(idBytes).toString("base64url");
    return new Secret(`${personId}.${id}.${this.#signature({ personId, id })}`);
  }

  /**
   * What tries of a person's account are counted by where it is a device of theirs; null: it is
   * not.
   */
  ofPerson(device: string | null, personId: string | undefined): string | null {
    const known = this.#read(device);
    return known !== null && known.personId === personId ? keyOf(known) : null;
  }

  /** What tries are counted by that are of no known account: the device, else the address. */
  keyOf({ device, by }: Trier): string {
    const known = this.#read(device);
    return known === null ? networkOf(by.request?.address ?? "") : keyOf(known);
  }

  #read(given: string | null): Device | null {
    const [, personId, id, signature] = form.exec(given ?? "") ?? [];
    if (personId === undefined || id === undefined || signature === undefined) return null;
    const device = { personId, id };
    return isSameText(signature, this.#signature(device)) ? device : null;
  }

  #signature({ personId, id }: Device): string {
    const hmac = createHmac("sha256", this.#secret.reveal());
    return hmac.update(`${signaturePurpose}:${personId}:${id}`).digest("base64url");
  }
}

function keyOf({ id }: Device): string {
  return `device ${id}`;
}
