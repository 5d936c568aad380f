// Sends mail through the server that SLIPWAY_SMTP_URL names. Texts hold links that are worth a
// password: neither they nor the server's password reach the log.
import { createTransport, type Transporter } from "nodemailer";
import { oneLine } from "#lib/one-line.ts";
import { retry, type RetryPolicy } from "#lib/retry.ts";
import type { Secret } from "#lib/secret.ts";
import type { Foundation } from "#store/foundation.ts";

export type Mail = { readonly to: string; readonly subject: string; readonly text: string };

export type MailerOptions = Pick<Foundation, "clock" | "log"> & {
  /** smtp:// or smtps://, with user and password where the server wants them. */
  readonly url: Secret;
  readonly from: string;
};

/** For connecting, for the greeting, and between two signs of life. */
const waitMs = 10_000;
const backoff = { firstMs: 500, factor: 4, msMax: 30_000, jitter: 0.2 };
const sending: RetryPolicy = { ...backoff, triesMax: 4, hasTryAtStop: true };
/** Mail that was posted and not sent yet; more is dropped, and the log says so. */
const postedMax = 1_000;
/** In characters; mail servers fold or refuse longer lines. */
const subjectLengthMax = 200;

/** Sends mail. `close()` waits for what was posted, which it tries once more at most. */
export class Mailer {
  readonly #options: MailerOptions;
  readonly #transport: Transporter;
  readonly #posted = new Set<Promise<void>>();
  readonly #stopping = new AbortController();

  constructor(options: MailerOptions) {
    this.#options = options;
    this.#transport = createTransport({
      url: options.url.reveal(),
      connectionTimeout: waitMs,
      greetingTimeout: waitMs,
      socketTimeout: waitMs,
      dnsTimeout: waitMs,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  }

  /** Resolves when the server has taken it; rejects when it has not, without a second try. */
  async send({ to, subject, text }: Mail): Promise<void> {
    const { from } = this.#options;
    // An address as an object is taken as it is: in a text, a comma would make two of it.
    await this.#transport.sendMail({
      from,
      to: { name: "", address: to },
      subject: oneLine(subject).slice(0, subjectLengthMax),
      text,
    });
  }

  /**
   * Sends in the background, again when it fails; at last the log says so. Returns at once,
   * whatever becomes of it.
   */
  post(mail: Mail): void {
    const { clock, log } = this.#options;
    if (this.#posted.size >= postedMax) {
      log.error(
        { waiting: postedMax },
        "mail was dropped: too much of it waits for the mail server",
      );
      return;
    }
    const { signal } = this.#stopping;
    const onFailure = (error: unknown, attempt: number, isLast: boolean): void =>
      log[isLast ? "error" : "warn"](
        { reason: reasonOf(error), attempt },
        "mail could not be sent",
      );
    const posted = retry({ ...sending, clock, signal, onFailure }, () => this.send(mail)).finally(
      () => this.#posted.delete(posted),
    );
    this.#posted.add(posted);
  }

  /** Ends it. */
  async close(): Promise<void> {
    this.#stopping.abort(new Error("the platform is stopping"));
    await Promise.all(this.#posted);
    this.#transport.close();
  }
}

/** What the server said may name the address, which is a person's: its code is enough. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  const code = "code" in error && typeof error.code === "string" ? error.code : error.name;
  const status =
    "responseCode" in error && typeof error.responseCode === "number"
      ? ` ${error.responseCode}`
      : "";
  return code + status;
}
