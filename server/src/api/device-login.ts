// Device login: the two routes that command lines use, and the two with which a person looks up a
// code and decides. Answers to a waiting device have an `error` besides the message, as RFC 8628
// requires.
import { networkOf } from "#lib/client-address.ts";
import type { z } from "zod";
import type { deviceAuthorization, deviceLogin } from "@slipway/contract/device-routes.ts";
import { deviceTokenFields } from "@slipway/contract/device-routes.ts";
import { perMinute, RateLimit } from "#lib/rate-limit.ts";
import type { DeviceLogin, NotYet } from "#people/device-login.ts";
import { bodyOf, partOf, readBody, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";
import { personCallerOf } from "./people-auth.ts";

/** Logins begun per minute and network address: many, since several people may share an address. */
const beginsMax = 120;
/** Polls per minute and network address: existing clients poll twice a second. */
const pollsMax = 600;
/** Codes per minute and person: more than anybody types, and far too few to guess one. */
const codesMax = 30;

const sentences: Readonly<Record<NotYet, string>> = {
  authorization_pending: "The code has not been approved yet; try again.",
  slow_down: "You are polling too often; wait longer between requests.",
  access_denied: "The person denied the sign-in.",
  expired_token: "The code has expired without approval; start again.",
  invalid_grant: "There is no device login with this device_code, or it has ended; start again.",
};

/** Route handlers for device logins. */
export function deviceLoginHandlers({ people: { devices: logins }, urls, clock }: HandlerParts) {
  const begins = new RateLimit({
    max: beginsMax,
    clock,
    text: tooMany("Device logins were started"),
  });
  const polls = new RateLimit({
    max: pollsMax,
    clock,
    text: tooMany("Device logins were polled"),
  });
  const codes = new RateLimit({ max: codesMax, clock, text: tooMany("Codes were looked up") });
  return {
    async beginDeviceLogin({ request }) {
      begins.take(networkOf(request.clientAddress));
      const client = request.headers["user-agent"] ?? "";
      const begun = await logins.begin({ client, address: request.clientAddress });
      const page = `${urls().dashboardUrl}/device`;
      const payload = {
        device_code: begun.deviceCode,
        user_code: begun.userCode,
        verification_uri: page,
        verification_uri_complete: `${page}?code=${begun.userCode}`,
        expires_in: begun.expiresInSeconds,
        interval: begun.intervalSeconds,
      };
      return { deviceAuthResponsePayload: payload } satisfies z.infer<typeof deviceAuthorization>;
    },
    async endDeviceLogin({ request, reply, body, by }) {
      polls.take(networkOf(request.clientAddress));
      const fields = readBody({ fields: deviceTokenFields, required: ["device_code"] }, body);
      const result = await logins.redeem(String(fields["device_code"]), by);
      if (typeof result === "string") {
        void reply.code(400).send({ error: result, message: sentences[result] });
        return undefined;
      }
      const { accessToken, refreshToken } = result;
      return { accessToken: accessToken.reveal(), refreshToken: refreshToken.reveal() };
    },
    async getDeviceLogin(call) {
      codes.take(personCallerOf(call).personId);
      return show(await logins.find(partOf(call, "user_code")));
    },
    async decideDeviceLogin(call) {
      const person = personCallerOf(call);
      codes.take(person.personId);
      const isApproved = bodyOf(call)["decision"] === "approve";
      const decision = { isApproved, person, by: call.by };
      return show(await logins.decide(partOf(call, "user_code"), decision));
    },
  } satisfies Handlers;
}

const tooMany = (what: string) => perMinute((used) => `${what} ${used} times`);

function show(login: DeviceLogin): z.infer<typeof deviceLogin> {
  return {
    userCode: login.user_code,
    client: login.client,
    address: login.address,
    createdAt: login.created_at.toISOString(),
    expiresAt: login.expires_at.toISOString(),
    state: login.state,
  };
}
