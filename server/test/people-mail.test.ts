// Mail: sent through a real server, again when it is refused, and never a reason to wait or to
// tell.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { systemClock } from "#lib/clock.ts";
import { createLog, type Log } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import { Mailer } from "#people/mailer.ts";
import "#test/support/leftovers.ts";
import { makePerson } from "#test/support/person.ts";
import { startMailReceiver } from "#test/support/mail-receiver.ts";
import { startManagementApi } from "#test/support/management-api.ts";
import { until } from "#test/support/until.ts";

const secretText = "https://slipway.example.test/dashboard/reset-password/the-secret";

function gatheredLog(): { log: Log; lines: string[] } {
  const lines: string[] = [];
  return {
    lines,
    log: createLog({
      level: "debug",
      pretty: false,
      to: { write: (line) => void lines.push(line) },
    }),
  };
}

function mailerTo(t: TestContext, url: string, log: Log): Mailer {
  const from = "Slipway <slipway@example.test>";
  const mailer = new Mailer({ url: new Secret(url), from, clock: systemClock, log });
  t.after(() => mailer.close());
  return mailer;
}

test("mail reaches the one who is named, whatever the address and the subject hold", async (t) => {
  const receiver = await startMailReceiver(t);
  const mailer = mailerTo(t, receiver.url, gatheredLog().log);
  const to = "ada,eve@example.test";
  await mailer.send({
    to,
    subject: "one\r\nBcc: eve@example.test\r\n\r\ntwo",
    text: `Go to ${secretText}`,
  });
  const [mail] = receiver.mails;
  assert.deepEqual(receiver.mails.length, 1);
  assert.deepEqual(mail?.to.length, 1, "one receiver, not two");
  assert.equal(mail?.from, "slipway@example.test");
  assert.ok(mail?.text.includes(secretText));
  assert.equal(/^Bcc:/im.test(mail?.text ?? ""), false);
});

test("posted mail is sent again when the server refuses it, and the log has neither address nor text", async (t) => {
  const receiver = await startMailReceiver(t, { refusals: 1 });
  const { log, lines } = gatheredLog();
  mailerTo(t, receiver.url, log).post({
    to: "ada@example.test",
    subject: "A link",
    text: secretText,
  });
  await receiver.next("ada@example.test");
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /mail could not be sent/);
  assert.match(lines[0] ?? "", /451/);
  assert.equal(/ada@|secret/.test(lines.join("")), false);
});

test("a mail server that is away is given up on when the platform stops", async (t) => {
  const { log, lines } = gatheredLog();
  const mailer = mailerTo(t, "smtp://user:a-password@127.0.0.1:9", log);
  mailer.post({ to: "ada@example.test", subject: "A link", text: secretText });
  await until("it was tried", () => lines.length > 0);
  await mailer.close();
  assert.match(lines.at(-1) ?? "", /"level":50/);
  assert.equal(/a-password|secret/.test(lines.join("")), false);
});

test("without mail, the operator's log says how to help whoever has forgotten their password, and the answer is the same", async (t) => {
  const { log, lines } = gatheredLog();
  const api = await startManagementApi(t, { log });
  await makePerson(api.db, { email: "ada@example.test", name: "Ada" });
  const ask = (email: string): ReturnType<typeof api.call> =>
    api.call("POST", "/v2/auth/password/forgot", { token: null, body: { email } });
  const known = await ask("ada@example.test");
  const unknown = await ask("nobody@example.test");
  assert.deepEqual([known.status, known.body], [unknown.status, unknown.body]);
  await api.people.close();
  assert.equal(lines.length, 1, lines.join(""));
  assert.match(lines[0] ?? "", /POST \/v2\/operator\/password-resets/);
});
