// Signatures over the audit log's chain: what was signed before goes on verifying, and each has one
// spelling only.
import assert from "node:assert/strict";
import {
  createPublicKey,
  generateKeyPairSync,
  sign,
  type JsonWebKey,
  type KeyObject,
} from "node:crypto";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { verifyExport } from "@slipway/cli/src/verify/verify-export.ts";
import { keyIdOf, signatureFault, signText } from "./chain-signature.ts";

const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const signer = {
  current: () => ({ id: "k", privateKey }),
  verifier: () => publicKey,
  withdrawn: () => undefined,
};
const keys = new Map([["k", publicKey]]);

/**
 * As signatures of the first versions were made, and what they hold: RSASSA-PKCS1-v1_5 over the
 * header and the text.
 */
function signedBefore(
  text: string,
  { key, typ = "slipway-audit" }: { key: KeyObject; typ?: string },
): string {
  const header = Buffer.from(JSON.stringify({ alg: "RS256", kid: "k", typ })).toString("base64url");
  const bytes = Buffer.from(`${header}.${Buffer.from(text).toString("base64url")}`);
  return `${header}..${sign("sha256", bytes, key).toString("base64url")}`;
}

test("an export that was signed before verifies, and one whose last signature is another's does not", async () => {
  const file = new URL("../../../test/audit-signed-export.json", import.meta.url);
  const { jwks, lines } = JSON.parse(await readFile(file, "utf8")) as {
    jwks: { keys: JsonWebKey[] };
    lines: string[];
  };
  const known = new Map(
    jwks.keys.map((key) => [String(key["kid"]), createPublicKey({ key, format: "jwk" })]),
  );
  async function* bytes(text: string): AsyncGenerator<Uint8Array> {
    yield Buffer.from(text);
  }
  const text = `${lines.join("\n")}\n`;
  assert.equal((await verifyExport(bytes(text), known)).result, "intact");
  const [header = "", checkpoint = ""] = [lines[0], lines.at(-1)].map(
    (line) => /\.\.([\w-]+)/.exec(line ?? "")?.[1],
  );
  const verdict = await verifyExport(bytes(text.replace(checkpoint, header)), known);
  assert.equal(verdict.result, "broken");
});

test("a signature has the same bytes as ever, and fits its text and key alone", async () => {
  const text = 'a text: "ä \u2028"';
  const { jws, keyId } = await signText(signer, text);
  assert.equal(jws, signedBefore(text, { key: privateKey }));
  assert.deepEqual([keyId, keyIdOf(jws)], ["k", "k"]);
  assert.equal(await signatureFault(jws, text, keys), null);
  assert.equal(await signatureFault(jws, `${text} `, keys), "wrong");
  assert.equal(await signatureFault(jws, text, new Map()), "unknown key");
  const others = [{ modulusLength: 2048 }, { modulusLength: 1024 }];
  for (const options of others) {
    const other = generateKeyPairSync("rsa", options);
    assert.equal(await signatureFault(jws, text, new Map([["k", other.publicKey]])), "wrong");
  }
});

test("other spellings and kinds of signatures are not taken", async () => {
  const { jws } = await signText(signer, "x");
  const [header = "", , signature = ""] = jws.split(".");
  const respelled = Buffer.from(
    JSON.stringify({ typ: "slipway-audit", alg: "RS256", kid: "k" }),
  ).toString("base64url");
  const none = Buffer.from(
    JSON.stringify({ alg: "none", kid: "k", typ: "slipway-audit" }),
  ).toString("base64url");
  const wrong = [
    "",
    "x",
    ".",
    "..",
    header,
    `${header}..`,
    `${header}.eA.${signature}`,
    `${jws}.`,
    `${jws}=`,
    ` ${jws}`,
    `${jws.slice(0, -1)}${jws.endsWith("A") ? "B" : "A"}`.slice(0, -1),
    `${respelled}..${signature}`,
    `${none}..`,
    signedBefore("x", { key: privateKey, typ: "JWT" }),
  ];
  for (const one of wrong)
    assert.equal((await signatureFault(one, "x", keys)) === null, false, one);
  for (const one of [
    `${respelled}..${signature}`,
    `${none}..`,
    `${header}.eA.${signature}`,
    `${jws}=`,
  ]) {
    assert.equal(await signatureFault(one, "x", keys), "malformed", one);
  }
});
