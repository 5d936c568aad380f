// A browser in which a person has signed in keeps a cookie that says so (OWASP's device cookie).
// Sign-in attempts with the cookie are counted separately, so nobody can lock the person out by
// wrong passwords, not even from the same address. The cookie gives no access, and whoever steals
// it gets no more attempts than anybody else.
import { createHmac, randomBytes } from "node:crypto";
import { isSameText } from "#lib/same-text.ts";
import type { By } from "#audit/record.ts";
import { Secret } from "#lib/secret.ts";
import { networkOf } from "#lib/client-address.ts";

/** A cookie's value: the person's id (a UUID), the device's id of 16 bytes, and the signature. */
const form = /^([0-9a-f-]{36})\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/;
const idBytes = 16;
const signaturePurpose = "slipway-device";

type Device = { readonly personId: string; readonly id: string };

/** Who makes an attempt: the value of the request's device cookie, or null, and who sent it. */
export type Trier = { readonly device: string | null; readonly by: By };

/** Makes and reads device cookies, signed with the secret of auth-secret.ts. */
export class DeviceCookies {
  readonly #secret: Secret;

  constructor(secret: Secret) {
    this.#secret = secret;
  }

  /**
   * The cookie's value for a person who has just signed in. If the browser's present cookie is of
   * the same person, its value stays.
   */
  valueFor(personId: string, cookie: string | null): Secret {
    const known = this.#read(cookie);
    const id = known?.personId === personId ? known.id : randomBytes(idBytes).toString("base64url");
    return new Secret(`${personId}.${id}.${this.#signature({ personId, id })}`);
  }

  /**
   * The key by which attempts with a person's device are counted; null: the device is not one of
   * the person's.
   */
  ofPerson(device: string | null, personId: string | undefined): string | null {
    const known = this.#read(device);
    return known !== null && known.personId === personId ? deviceKey(known) : null;
  }

  /** The key by which attempts without a known person are counted: the device, or the address. */
  keyOf({ device, by }: Trier): string {
    const known = this.#read(device);
    return known === null ? networkOf(by.request?.address ?? "") : deviceKey(known);
  }

  #read(cookie: string | null): Device | null {
    const [, personId, id, signature] = form.exec(cookie ?? "") ?? [];
    if (personId === undefined || id === undefined || signature === undefined) return null;
    const device = { personId, id };
    return isSameText(signature, this.#signature(device)) ? device : null;
  }

  #signature({ personId, id }: Device): string {
    const hmac = createHmac("sha256", this.#secret.reveal());
    return hmac.update(`${signaturePurpose}:${personId}:${id}`).digest("base64url");
  }
}

function deviceKey({ id }: Device): string {
  return `device ${id}`;
}
