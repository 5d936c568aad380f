// A mail server on a free port of this machine, for tests of outgoing mail: it accepts and keeps
// everything.
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { SMTPServer } from "smtp-server";
import { until } from "./until.ts";

export type ReceivedMail = {
  readonly from: string;
  readonly to: readonly string[];
  /** Headers and text as received, with quoted-printable decoded. */
  readonly text: string;
};

export type MailReceiver = {
  /** The value for SLIPWAY_SMTP_URL. */
  readonly url: string;
  readonly mails: ReceivedMail[];
  /** Waits for a mail to the address, after skipping the first `after` ones. */
  next(to: string, after?: number): Promise<ReceivedMail>;
};

/** Starts it; stopped after the test. `refusals`: how many mails it refuses first. */
export async function startMailReceiver(
  t: TestContext,
  options: { refusals?: number } = {},
): Promise<MailReceiver> {
  const mails: ReceivedMail[] = [];
  let refusals = options.refusals ?? 0;
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS"],
    logger: false,
    onData(stream, session, done) {
      const parts: Buffer[] = [];
      stream.on("data", (part: Buffer) => parts.push(part));
      stream.on("end", () => {
        refusals -= 1;
        if (refusals >= 0)
          return done(Object.assign(new Error("try again later"), { responseCode: 451 }));
        const { mailFrom, rcptTo } = session.envelope;
        const text = readable(Buffer.concat(parts).toString("utf8"));
        const from = mailFrom === false ? "" : mailFrom.address;
        mails.push({ from, to: rcptTo.map(({ address }) => address), text });
        done();
      });
    },
  });
  server.listen(0, "127.0.0.1");
  await once(server.server, "listening");
  t.after(() => new Promise<void>((resolve) => server.close(resolve)));
  const { port } = server.server.address() as AddressInfo;
  return {
    url: `smtp://127.0.0.1:${port}`,
    mails,
    next: (to, after = 0) =>
      until(`mail to ${to}`, () => mails.filter((mail) => mail.to.includes(to)).at(after)),
  };
}

/** Decodes quoted-printable: soft line breaks, and bytes as =3D. */
function readable(text: string): string {
  const whole = text.replaceAll(/=\r?\n/g, "");
  return whole.replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
}
