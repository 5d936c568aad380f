// `slipway certificates …`: the TLS certificates that the platform gets by itself, for operators.
import { answerOf } from "@slipway/client/client.ts";
import { revocationFields } from "@slipway/contract/certificate-fields.ts";
import { choice, changeCommand, limitOption, listCommand, paged } from "./resource.ts";
import { moment } from "./table.ts";

const list = "/v2/operator/certificates" as const;
const nameOperand = {
  name: "name",
  about: "The host name, as slipway certificates lists it.",
} as const;
const reasons = revocationFields.reason.choices;

/** The commands of certificates, by verb. */
export const certificates = {
  list: listCommand({
    name: "certificates list",
    about:
      "List the certificates that the platform gets by itself, first those with which something is wrong. For operators.",
    examples: ["certificates", "certificates --limit 500"],
    of: "platform",
    options: limitOption,
    items: (at) => paged(at, (query) => answerOf(at.api.GET(list, { params: { query } }))),
    columns: {
      NAME: ({ name }) => name,
      STATE: ({ state }) => state,
      ENDS: ({ ends_at }) => moment(ends_at),
      "NEXT TRY": ({ next_try_at }) => moment(next_try_at),
      "FAILING SINCE": ({ failing_since }) => moment(failing_since),
      ERROR: ({ last_error }) => last_error,
    },
    none: "The platform gets no certificates by itself. SLIPWAY_ACME_EMAIL has it do so.",
  }),

  renew: changeCommand({
    name: "certificates renew",
    about: "Request a certificate now, whether it is due or not. For operators.",
    examples: ["certificates renew slipway.example.org"],
    of: "platform",
    operands: [nameOperand],
    change: ({ api, given }) =>
      answerOf(
        api.POST(`${list}/{certificate}/renew`, {
          params: { path: { certificate: given.operand("name") } },
        }),
      ),
    said: ({ name }) => `A certificate for ${name} is requested. To see it: slipway certificates`,
  }),

  revoke: changeCommand({
    name: "certificates revoke",
    about: "Revoke a certificate, and request another one. For operators.",
    examples: ["certificates revoke slipway.example.org --reason key_compromise --yes"],
    of: "platform",
    operands: [nameOperand],
    options: { reason: { value: "<reason>", about: `One of ${reasons.join(", ")}.` } },
    question: ({ given }) =>
      `Revoke the certificate of ${given.operand("name")}? Until another one is there, clients are refused.`,
    change: ({ api, given }) =>
      answerOf(
        api.POST(`${list}/{certificate}/revoke`, {
          params: { path: { certificate: given.operand("name") } },
          body: { reason: choice(given, "reason", reasons) ?? revocationFields.reason.default },
        }),
      ),
    said: ({ name }) =>
      `The certificate of ${name} is being revoked, and another one requested if it is still needed. To see it: slipway certificates`,
  }),
};
