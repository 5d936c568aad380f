// Sends mail through the server that SLIPWAY_SMTP_URL names. Mail may contain links that are worth
// as much as a password: neither texts nor the server's password reach the log.
import { createTransport, type Transporter } from "nodemailer";
import { oneLine } from "#lib/one-line.ts";
import { retry, type RetryPolicy } from "#lib/retry.ts";
import type { Secret } from "#lib/secret.ts";
import type { Foundation } from "#store/foundation.ts";

export type Mail = { readonly to: string; readonly subject: string; readonly text: string };

export type MailerOptions = Pick<Foundation, "clock" | "log"> & {
  /** An `smtp://` or `smtps://` URL, with a user and a password if the server requires them. */
  readonly url: Secret;
  readonly from: string;
};

/** How long the server may take to connect, to greet, and to send or receive the next bytes. */
const waitMs = 10_000;
/** The waits between the tries of a mail: about half a second, two seconds and eight seconds. */
const backoff = { firstMs: 500, factor: 4, msMax: 30_000, jitter: 0.2 };
const sendPolicy: RetryPolicy = { ...backoff, triesMax: 4, hasTryAtStop: true };
/** The maximum number of posted mails that are not sent yet. The log says when more are dropped. */
const postedMax = 1_000;
/** The maximum number of characters of a subject: mail servers fold or refuse longer lines. */
const subjectLengthMax = 200;

/** Sends mail. `close()` waits for the posted mails, each of which is tried at most once more. */
export class Mailer {
  readonly #options: MailerOptions;
  readonly #transport: Transporter;
  /** The mails that wait to be sent, or are being sent. */
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

  /** Sends a mail with one try. Resolves when the server has accepted it, and rejects otherwise. */
  async send({ to, subject, text }: Mail): Promise<void> {
    const { from } = this.#options;
    // An address in an object is used as it is. In a text, a comma would separate two addresses.
    await this.#transport.sendMail({
      from,
      to: { name: "", address: to },
      subject: oneLine(subject).slice(0, subjectLengthMax),
      text,
    });
  }

  /**
   * Sends a mail in the background, and tries again when that fails. The log says when the last try
   * has failed. Returns at once.
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
    const onFailure = (error: unknown, attempt: number, isLast: boolean): void => {
      const level = isLast ? "error" : "warn";
      log[level]({ reason: reasonOf(error), attempt }, "mail could not be sent");
    };
    const posted = retry({ ...sendPolicy, clock, signal, onFailure }, () =>
      this.send(mail),
    ).finally(() => this.#posted.delete(posted));
    this.#posted.add(posted);
  }

  /** Waits for the posted mails, then closes the connection to the server. */
  async close(): Promise<void> {
    this.#stopping.abort(new Error("the platform is stopping"));
    await Promise.all(this.#posted);
    this.#transport.close();
  }
}

/**
 * The code of an error, and the status with which the server has answered. The error's text is not
 * logged, since it may contain a person's address.
 */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  const code = "code" in error && typeof error.code === "string" ? error.code : error.name;
  const status =
    "responseCode" in error && typeof error.responseCode === "number"
      ? ` ${error.responseCode}`
      : "";
  return code + status;
}
