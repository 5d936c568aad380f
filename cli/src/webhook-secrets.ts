// `slipway webhooks secrets …`: the secrets that sign the webhooks of a project.
import { answerOf } from "@slipway/client/client.ts";
import { misuse } from "./refused.ts";
import { changeCommand, defined, listCommand } from "./resource.ts";
import { moment } from "./table.ts";

const route = "/v2/projects/{project_id}/webhook-secrets" as const;

/** The commands of webhook secrets, by verb. */
export const webhookSecrets = {
  list: listCommand({
    name: "webhooks secrets list",
    about:
      "List the secrets that sign the webhooks of the project now, newest first. Their values are only in --json.",
    examples: ["webhooks secrets", "webhooks secrets list --json"],
    of: "project",
    items: ({ api, path }) => answerOf(api.GET(route, { params: { path } })),
    columns: {
      ID: ({ id }) => id,
      CREATED: ({ createdAt }) => moment(createdAt),
      "VALID UNTIL": ({ expiresAt }) => moment(expiresAt) ?? "it is replaced",
    },
    none: "The project has no webhook secrets.",
  }),

  create: changeCommand({
    name: "webhooks secrets create",
    about:
      "Create a secret that signs the webhooks of the project from now on, and print it. The previous one stays valid for a while.",
    examples: ["webhooks secrets create", "webhooks secrets create --overlap 48"],
    of: "project",
    options: {
      overlap: {
        value: "<hours>",
        about: "How long the previous one stays valid, 0 to 720. Default: 24.",
      },
    },
    async change({ api, path, given }) {
      const overlap = given.text("overlap");
      const overlapHours = overlap === undefined ? undefined : Number(overlap);
      if (Number.isNaN(overlapHours))
        throw misuse(`--overlap is "${overlap}", but must be a number of hours.`);
      return await answerOf(api.POST(route, { params: { path }, body: defined({ overlapHours }) }));
    },
    said: ({ id }) => `Created the webhook secret ${id}. Keep it secret like a password:`,
    result: ({ secret }) => secret,
  }),

  delete: changeCommand({
    name: "webhooks secrets delete",
    about: "Delete a secret: it stops signing immediately. The last one is replaced by a new one.",
    examples: ["webhooks secrets delete 0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c --yes"],
    of: "project",
    operands: [{ name: "secret", about: "Its id." }],
    question: ({ given }) => `Delete the webhook secret ${given.operand("secret")}?`,
    change: ({ api, path, given }) =>
      answerOf(
        api.DELETE(`${route}/{secret_id}`, {
          params: { path: { ...path, secret_id: given.operand("secret") } },
        }),
      ),
    said: ({ message }) => message,
  }),
};
