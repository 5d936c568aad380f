// `slipway domains …`: names of its own on which an app answers.
import { answerOf } from "@slipway/client/client.ts";
import { changeCommand, listCommand } from "./resource.ts";
import { moment, state } from "./table.ts";

const route = "/v2/projects/{project_id}/apps/{app_id}/domains" as const;
const domainRoute = `${route}/{domain}` as const;
const nameOperand = { name: "domain", about: "A host name, such as shop.example.org." } as const;

type DnsRecord = { readonly name: string; readonly value: string };

type Domain = {
  readonly name: string;
  readonly state: string;
  readonly found: string | null;
  readonly cname: DnsRecord | null;
  readonly txt: DnsRecord;
  readonly host: string;
  readonly failsAt: string | null;
  readonly certificate: Certificate | null;
};

type Certificate = { readonly state: string; readonly lastError: string | null };

/** The commands of domains, by verb. */
export const domains = {
  list: listCommand({
    name: "domains list",
    about: `List the domains of an app with the states of their certificates, and what was found in DNS where the record that
proves one is missing.`,
    examples: ["domains list hello"],
    of: "app",
    items: ({ api, path }) => answerOf(api.GET(route, { params: { path } })),
    columns: {
      DOMAIN: ({ name }) => name,
      STATE: (domain) => state(domain.state),
      CERTIFICATE: ({ certificate }) => certificate?.state ?? null,
      CHECKED: ({ checkedAt }) => moment(checkedAt),
      FOUND: ({ found }) => found,
    },
    none: "The app has no domains. To add one: slipway domains add <app> <domain>",
  }),

  add: changeCommand({
    name: "domains add",
    about: `Add a domain to an app, and print the DNS record to create. The platform looks for the record by itself, for two days;
the app answers on the domain once it is found.`,
    examples: ["domains add hello shop.example.org"],
    of: "app",
    operands: [nameOperand],
    change: ({ api, path, given }) =>
      answerOf(api.POST(route, { params: { path }, body: { name: given.operand("domain") } })),
    said: stateText,
  }),

  check: changeCommand({
    name: "domains check",
    about:
      "Look for the DNS record of a domain now. A domain that has failed is looked for again, for two more days.",
    examples: ["domains check hello shop.example.org"],
    of: "app",
    operands: [nameOperand],
    hints: { 404: listHint },
    change: ({ api, path, given }) =>
      answerOf(
        api.POST(`${domainRoute}/check`, {
          params: { path: { ...path, domain: given.operand("domain") } },
        }),
      ),
    said: stateText,
  }),

  remove: changeCommand({
    name: "domains remove",
    about: "Remove a domain from an app, which no longer answers on it.",
    examples: ["domains remove hello shop.example.org"],
    of: "app",
    operands: [nameOperand],
    hints: { 404: listHint },
    question: ({ given }) => `The app no longer answers on ${given.operand("domain")}.`,
    change: ({ api, path, given }) =>
      answerOf(
        api.DELETE(domainRoute, {
          params: { path: { ...path, domain: given.operand("domain") } },
        }),
      ),
    said: ({ message }) => message,
  }),
};

function listHint(): string {
  return "To see all: slipway domains list <app>";
}

/** The state of a domain, with the records that are missing. */
function stateText(domain: Domain): string[] {
  const { name, found, failsAt } = domain;
  const foundText = found === null ? [] : [`Found instead: ${found}.`];
  if (domain.state === "Validated" && failsAt === null)
    return [`The app answers on ${name}.`, ...certificateText(domain)];
  if (domain.state === "Validated")
    return [
      `The app answers on ${name} until ${failsAt}: its record is gone.`,
      ...foundText,
      ...recordText(domain),
    ];
  const lead =
    domain.state === "Failed"
      ? `${name} was not proven, so the app does not answer on it.`
      : `${name} is not proven yet.`;
  const next = `To look for it at once: slipway domains check <app> ${name}`;
  return [lead, ...foundText, ...recordText(domain), next];
}

/** What keeps the domain from having a certificate, if anything does. */
function certificateText({ name, certificate }: Domain): string[] {
  const reason = certificate?.lastError ?? null;
  if (reason === null) return [];
  return certificate?.state === "waiting"
    ? [`A certificate for ${name} is not requested yet: ${reason}.`]
    : [`The last try to get a certificate for ${name} failed: ${reason}.`];
}

function recordText({ name, cname, txt, host }: Domain): string[] {
  const text = `  ${txt.name}  TXT  ${txt.value}`;
  const leads = `and have ${name} lead to ${host} (A, AAAA or CNAME).`;
  if (cname === null) return ["Create this record in DNS:", text, leads];
  return [
    "Create this record in DNS:",
    `  ${cname.name}  CNAME  ${cname.value}`,
    "or, where a CNAME is not possible, this one:",
    text,
    leads,
  ];
}
