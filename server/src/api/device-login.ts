// Device login: the two routes that existing command lines use, and those where a person decides.
// Answers to a waiting device have an `error` besides the message, as RFC 8628 requires.
import { networkOf } from "#lib/client-address.ts";
import type { z } from "zod";
import type { deviceAuthorization, deviceLogin } from "@slipway/contract/device-routes.ts";
import { deviceTokenFields } from "@slipway/contract/device-routes.ts";
import { perMinute, RateLimit } from "#lib/rate-limit.ts";
import type { DeviceLogin, NotYet } from "#people/device-login.ts";
import { bodyOf, partOf, readBody, type Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";
import { personCallerOf } from "./people-auth.ts";

/** Per minute and address (for IPv6: network), which several people may share. */
const beginsMax = 120;
/** Existing clients poll twice a second. */
const asksMax = 600;
/** Per person: nobody types that many codes, and guessing one takes billions. */
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
  const asks = new RateLimit({
    max: asksMax,
    clock,
    text: tooMany("Device logins were requested"),
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
      asks.take(networkOf(request.clientAddress));
      const given = readBody({ fields: deviceTokenFields, required: ["device_code"] }, body);
      const tokens = await logins.redeem(String(given["device_code"]), by);
      if (typeof tokens !== "string") {
        return {
          accessToken: tokens.accessToken.reveal(),
          refreshToken: tokens.refreshToken.reveal(),
        };
      }
      void reply.code(400).send({ error: tokens, message: sentences[tokens] });
      return undefined;
    },
    async getDeviceLogin(call) {
      codes.take(personCallerOf(call).personId);
      return show(await logins.find(partOf(call, "user_code")));
    },
    async decideDeviceLogin(call) {
      const person = personCallerOf(call);
      codes.take(person.personId);
      const given = bodyOf(call);
      const isApproved = given["decision"] === "approve";
      return show(
        await logins.decide(partOf(call, "user_code"), { isApproved, person, by: call.by }),
      );
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
