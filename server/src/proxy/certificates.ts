// The certificates of the HTTPS port. Some the platform gets by itself. Others are in the
// operator's files, which are read again when they change: a pair of files that cannot be used
// never replaces one that can. The log tells of each change of the files, and once a day of each
// certificate in them that ends soon.
import { createPrivateKey, X509Certificate, type KeyObject } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createSecureContext, type SecureContext, type SecureContextOptions } from "node:tls";
import { errorMessage } from "#lib/error-message.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Clock } from "#lib/clock.ts";
import { errorCode } from "#lib/error-code.ts";
import type { Log } from "#lib/log.ts";
import type { CertificateTexts, ManagedCertificates } from "./managed-certificates.ts";

/** Paths of a certificate with its chain, and of its key, both in PEM. */
export type CertificateFiles = { readonly certificateFile: string; readonly keyFile: string };

type Parts = { readonly log: Log; readonly clock: Clock };

/** A usable certificate with its key. */
type Pair = {
  readonly texts: CertificateTexts;
  /** The pair in the options of a TLS server, whose standard it then is. */
  readonly options: SecureContextOptions;
  /** The pair as it is used for the connections of one host name. */
  readonly context: SecureContext;
  /** The certificate itself, without its chain. */
  readonly leaf: X509Certificate;
  readonly beginsAtMs: number;
  readonly endsAtMs: number;
};

/** The oldest version of TLS that a client may use. */
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

/** A certificate that is in use from a file. */
type InUse = Pick<Pair, "beginsAtMs" | "endsAtMs"> & {
  readonly file: string;
  readonly names: string[];
};

const dayMs = 86_400_000;
/**
 * The log tells of a certificate's end from three weeks before it. If a certificate is valid for
 * less than nine weeks, the log tells of its end in the last third of that time.
 */
const soonMs = 21 * dayMs;

/**
 * Certificates that the platform gets by itself, and the name whose certificate is the standard.
 */
export type ManagedUse = { readonly source: ManagedCertificates; readonly standardName: string };

/** The options without a certificate: the handshake of a client that gets them fails. */
const optionsWithoutPair: SecureContextOptions = { minVersion, ciphers };

/**
 * The pairs in use. The standard pair is for clients that name no host, or a host without a pair:
 * it is the first pair of files or, without files, the managed pair of the platform's own name.
 */
export class Certificates {
  readonly #parts: Parts;
  /** The pairs of files, in the order of the settings. */
  readonly #slots: readonly CertificateSlot[];
  /** The pairs that the platform got by itself, by the name that each is for. */
  readonly #managed = new Map<string, Pair>();
  readonly #standardName: string | null;
  readonly #emptyContext = createSecureContext(optionsWithoutPair);
  readonly #listeners: (() => void)[] = [];

  /** Reads the files. Throws `CannotStart` when a pair cannot be used. */
  constructor(
    files: readonly CertificateFiles[],
    { managed = null, ...parts }: Parts & { readonly managed?: ManagedUse | null },
  ) {
    this.#parts = parts;
    this.#slots = files.map((paths) => new CertificateSlot(paths, parts));
    this.#standardName = managed?.standardName ?? null;
    managed?.source.serve({
      take: (name, texts) => this.#take(name, texts),
      isGiven: (name) => this.#isGiven(name),
    });
  }

  /** The standard pair, with all other options of its connections. */
  get standard(): SecureContextOptions {
    return this.#standardPair?.options ?? optionsWithoutPair;
  }

  /** The certificates that are in use from the files, with their names. */
  files(): InUse[] {
    return this.#slots.map(({ file, pair: { leaf, beginsAtMs, endsAtMs } }) => ({
      file,
      names: namesOf(leaf),
      beginsAtMs,
      endsAtMs,
    }));
  }

  /** When the first of the certificates ends, in milliseconds since 1970; null: there are none. */
  get endsAtMs(): number | null {
    const pairs = [...this.#slots.map(({ pair }) => pair), ...this.#managed.values()];
    return pairs.length === 0 ? null : Math.min(...pairs.map(({ endsAtMs }) => endsAtMs));
  }

  /**
   * The certificate for a host name: from the files, else a managed one, else the standard one. If
   * there is none at all, the handshake fails.
   */
  contextFor(name: string): SecureContext {
    const slot = this.#slots.find(({ pair }) => pair.leaf.checkHost(name) !== undefined);
    const pair = slot?.pair ?? this.#managedFor(name.toLowerCase()) ?? this.#standardPair;
    return pair?.context ?? this.#emptyContext;
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
    this.#tellChange(standard);
  }

  get #standardPair(): Pair | undefined {
    return this.#slots[0]?.pair ?? this.#managedFor(this.#standardName ?? "");
  }

  /** The managed pair for the name, such as `shop.example.com`, or else for `*.example.com`. */
  #managedFor(name: string): Pair | undefined {
    return this.#managed.get(name) ?? this.#managed.get(name.replace(/^[^.]+/, "*"));
  }

  /** Whether a certificate in the files is for the name, so that no managed one is needed. */
  #isGiven(name: string): boolean {
    // A name with an asterisk is no host name, so a host name that it stands for is checked.
    const example = name.replace(/^\*/, "any");
    return this.#slots.some(({ pair }) => pair.leaf.checkHost(example) !== undefined);
  }

  /** Uses the certificate for the name from now on; null: uses none for it. */
  #take(name: string, texts: CertificateTexts | null): void {
    const { standard } = this;
    const pair = texts === null ? null : pairOf(texts);
    if (typeof pair === "string")
      return this.#parts.log.error({ name, reason: pair }, "an issued certificate cannot be used");
    if (pair === null) this.#managed.delete(name);
    else this.#managed.set(name, pair);
    this.#tellChange(standard);
  }

  /** Calls the listeners if `standard` is no longer `before`. */
  #tellChange(before: SecureContextOptions): void {
    if (this.standard !== before) for (const listener of this.#listeners) listener();
  }
}

/** One pair of files, and the pair in use, which may be older. */
class CertificateSlot {
  pair: Pair;
  readonly #files: CertificateFiles;
  readonly #parts: Parts;
  /** What the files held at the last look; a text says why they could not be read. */
  #seen: CertificateTexts | string;
  /** True when `#seen` has been taken into use or refused. */
  #isJudged = true;
  /** The last day on which the log told of the end, in days since 1970; 0: it has not. */
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

  /** The file with the certificate. */
  get file(): string {
    return this.#files.certificateFile;
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

  #judge(texts: CertificateTexts | string): void {
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

  /** Logs, once a day, that the certificate ends soon or has ended. */
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
  async #read(): Promise<CertificateTexts | string> {
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

function isSame(one: CertificateTexts | string, other: CertificateTexts | string): boolean {
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
function pairOf(texts: CertificateTexts): Pair | string {
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
    return `OpenSSL refuses it: ${errorMessage(error)}`;
  }
}

/** The names that the certificate is for; the subject where it has no other ones. */
function namesOf({ subjectAltName, subject }: X509Certificate): string[] {
  const texts = (subjectAltName ?? subject).split(/, |\n/);
  return texts.map((text) => text.replace(/^(?:DNS|IP Address):/, ""));
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
