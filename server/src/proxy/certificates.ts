// The certificates of the HTTPS port, read from the operator's files and read again when these
// change. A pair of files that cannot be used never replaces one that can. The log tells of each
// change, and every day of a certificate that ends soon.
import { createPrivateKey, X509Certificate, type KeyObject } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createSecureContext, type SecureContext, type SecureContextOptions } from "node:tls";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Clock } from "#lib/clock.ts";
import { errorCode } from "#lib/error-code.ts";
import type { Log } from "#lib/log.ts";

/** Paths of a certificate with its chain, and of its key, both in PEM. */
export type CertificateFiles = { readonly certificateFile: string; readonly keyFile: string };

type Parts = { readonly log: Log; readonly clock: Clock };

type Texts = { readonly certificate: string; readonly key: string };

type Pair = {
  readonly texts: Texts;
  readonly options: SecureContextOptions;
  readonly context: SecureContext;
  /** The certificate itself, without its chain. */
  readonly leaf: X509Certificate;
  readonly beginsAtMs: number;
  readonly endsAtMs: number;
};

/** TLS 1.2 is the oldest version. */
const minVersion = "TLSv1.2";
/**
 * The ciphers of Mozilla's "intermediate" recommendation that exchange keys on elliptic curves: all
 * have forward secrecy, and HTTP/2 allows them.
 */
const ciphers = [
  "TLS_AES_128_GCM_SHA256",
  "TLS_AES_256_GCM_SHA384",
  "TLS_CHACHA20_POLY1305_SHA256",
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-CHACHA20-POLY1305",
  "ECDHE-RSA-CHACHA20-POLY1305",
].join(":");

const dayMs = 86_400_000;
/** The log tells of a certificate's end from three weeks before it, or from its last third. */
const soonMs = 21 * dayMs;

/** The pairs in use; the first one is for clients that name no host, or one without a pair. */
export class Certificates {
  readonly #parts: Parts;
  readonly #slots: readonly [CertificateSlot, ...CertificateSlot[]];
  readonly #listeners: (() => void)[] = [];

  /** Reads the files. Throws `CannotStart` when a pair cannot be used. */
  constructor(files: readonly [CertificateFiles, ...CertificateFiles[]], parts: Parts) {
    const [first, ...others] = files;
    this.#parts = parts;
    this.#slots = [
      new CertificateSlot(first, parts),
      ...others.map((one) => new CertificateSlot(one, parts)),
    ];
  }

  /** The first pair, with all other options of its connections. */
  get standard(): SecureContextOptions {
    return this.#slots[0].pair.options;
  }

  /** When the certificate that ends first does so, in milliseconds since 1970. */
  get endsAtMs(): number {
    return Math.min(...this.#slots.map(({ pair }) => pair.endsAtMs));
  }

  /** The pair for a host name. */
  contextFor(name: string): SecureContext {
    const slot = this.#slots.find(({ pair }) => pair.leaf.checkHost(name) !== undefined);
    return (slot ?? this.#slots[0]).pair.context;
  }

  /** Calls `listener` when `standard` has changed. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Reads the files again, and tells the log which certificates end soon. Never rejects. */
  async look(): Promise<void> {
    const { standard } = this;
    for (const slot of this.#slots) {
      await slot.look();
      slot.tellEnd(this.#parts.clock.now());
    }
    if (this.standard !== standard) for (const listener of this.#listeners) listener();
  }
}

/** One pair of files, and the pair in use, which may be older. */
class CertificateSlot {
  pair: Pair;
  readonly #files: CertificateFiles;
  readonly #parts: Parts;
  /** What the files held at the last look. */
  #seen: Texts | string;
  /** What the files held at the last look has been taken or refused. */
  #isJudged = true;
  /** The last day on which the log told of the end. */
  #toldDay = 0;

  constructor(files: CertificateFiles, parts: Parts) {
    this.#files = files;
    this.#parts = parts;
    const { certificateFile, keyFile } = files;
    const texts = {
      certificate: readNow("SLIPWAY_TLS_CERTIFICATE", certificateFile),
      key: readNow("SLIPWAY_TLS_KEY", keyFile),
    };
    const pair = pairOf(texts);
    if (typeof pair === "string")
      throw new CannotStart(
        `SLIPWAY_TLS_CERTIFICATE (${certificateFile}) and SLIPWAY_TLS_KEY (${keyFile}) cannot be used: ${pair}.`,
      );
    this.pair = pair;
    this.#seen = texts;
    parts.log.info(this.#about(), "a TLS certificate is in use");
  }

  async look(): Promise<void> {
    const before = this.#seen;
    const texts = await this.#read();
    this.#seen = texts;
    // Whoever replaces two files does so one after the other: what changed only now may be half of
    // a change, and is used, or refused, at the next look.
    if (!isSame(texts, before)) this.#isJudged = false;
    else if (!this.#isJudged) this.#judge(texts);
  }

  #judge(texts: Texts | string): void {
    this.#isJudged = true;
    if (isSame(texts, this.pair.texts)) return;
    const pair = typeof texts === "string" ? texts : pairOf(texts);
    const now = this.#parts.clock.now();
    if (typeof pair === "string") return this.#refuse(pair);
    if (pair.endsAtMs <= now && this.pair.endsAtMs > now)
      return this.#refuse("the new certificate has already ended");
    this.pair = pair;
    this.#toldDay = 0;
    this.#parts.log.info(this.#about(), "a new TLS certificate is in use");
  }

  #refuse(reason: string): void {
    this.#parts.log.error(
      { ...this.#about(), reason },
      "the TLS files have changed, but cannot be used: the earlier certificate stays in use",
    );
  }

  tellEnd(nowMs: number): void {
    const { beginsAtMs, endsAtMs } = this.pair;
    const leftMs = endsAtMs - nowMs;
    const today = Math.floor(nowMs / dayMs);
    if (leftMs > Math.min(soonMs, (endsAtMs - beginsAtMs) / 3) || today === this.#toldDay) return;
    this.#toldDay = today;
    const { log } = this.#parts;
    if (leftMs <= 0) log.error(this.#about(), "a TLS certificate has ended: replace its files");
    else log.warn(this.#about(), "a TLS certificate ends soon: replace its files");
  }

  #about(): object {
    const { leaf, endsAtMs } = this.pair;
    return {
      ...this.#files,
      names: leaf.subjectAltName ?? leaf.subject,
      endsAt: new Date(endsAtMs).toISOString(),
    };
  }

  /** Reads both files; a text says why they cannot be read. */
  async #read(): Promise<Texts | string> {
    const { certificateFile, keyFile } = this.#files;
    try {
      return {
        certificate: await readFile(certificateFile, "utf8"),
        key: await readFile(keyFile, "utf8"),
      };
    } catch (error) {
      return `a file cannot be read (${errorCode(error)})`;
    }
  }
}

function isSame(one: Texts | string, other: Texts | string): boolean {
  if (typeof one === "string" || typeof other === "string") return one === other;
  return one.certificate === other.certificate && one.key === other.key;
}

function readNow(setting: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const message = `${setting} (${file}) cannot be read: ${errorCode(error)}.`;
    throw new CannotStart(message, { cause: error });
  }
}

/** The pair; a text says why it cannot be used, and contains nothing of the key. */
function pairOf(texts: Texts): Pair | string {
  const leaf = certificateIn(texts.certificate);
  if (leaf === null) return "the file of the certificate holds none in PEM";
  const key = keyIn(texts.key);
  if (key === null) return "the file of the key holds none in PEM that needs no passphrase";
  if (!leaf.checkPrivateKey(key))
    return "the key belongs to another certificate than the first one in its file";
  const options = { cert: texts.certificate, key: texts.key, minVersion, ciphers } as const;
  try {
    const context = createSecureContext(options);
    const beginsAtMs = Date.parse(leaf.validFrom);
    return { texts, options, context, leaf, beginsAtMs, endsAtMs: Date.parse(leaf.validTo) };
  } catch (error) {
    return `OpenSSL refuses it: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function certificateIn(text: string): X509Certificate | null {
  try {
    return new X509Certificate(text);
  } catch {
    return null;
  }
}

function keyIn(text: string): KeyObject | null {
  try {
    return createPrivateKey(text);
  } catch {
    return null;
  }
}
