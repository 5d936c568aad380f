// The route that runs a command in a replica, over a WebSocket.
import { z } from "zod";
import type { Field } from "./field.ts";
import { paths, type Route } from "./route.ts";

const flag = (about: string) =>
  ({ kind: "boolean", toml: null, default: false, about }) as const satisfies Field;

const size = (about: string) =>
  ({
    kind: "integer",
    toml: null,
    min: 1,
    max: 2_000,
    default: null,
    about,
  }) as const satisfies Field;

/** The query of `…/containers/{c}/exec`. */
export const execQuery = {
  command: {
    kind: "list",
    toml: null,
    lengthMin: 1,
    lengthMax: 200,
    isSingleAllowed: true,
    isUnique: false,
    default: null,
    // Refusals, which the audit log keeps, do not show them.
    isSecret: true,
    about:
      "The program and its arguments, each as a parameter of its own: command=ls&command=-l. Required.",
  },
  stdin: flag("True: it reads what the client sends; otherwise its input is empty."),
  tty: flag("True: it gets a terminal; all output is then that of stdout."),
  columns: size("The width of the terminal at first; 80 by default."),
  rows: size("The height of the terminal at first; 24 by default."),
} as const satisfies Record<string, Field>;

/**
 * The subprotocol: https://kubernetes.io/docs/reference/using-api/websockets/ describes its
 * channels.
 */
export const execProtocol = "v5.channel.k8s.io";

/**
 * A subprotocol of this form carries the token of a client that cannot set header fields, such as a
 * page: base64url without padding.
 */
export const bearerProtocol = "base64url.bearer.authorization.k8s.io.";

/** The channels: the first byte of each message. */
export const execChannels = {
  stdin: 0,
  stdout: 1,
  stderr: 2,
  status: 3,
  resize: 4,
  close: 255,
} as const;

/** What the channel `status` sends last. */
export const execStatus = z.strictObject({
  metadata: z.strictObject({}),
  status: z.enum(["Success", "Failure"]),
  message: z.string().optional(),
  reason: z.enum(["NonZeroExitCode", "InternalError"]).optional(),
  details: z
    .strictObject({ causes: z.array(z.strictObject({ reason: z.string(), message: z.string() })) })
    .optional(),
});

/** By operation id; part of the table in `routes.ts`. */
export const execRoutes = {
  execInContainer: {
    method: "GET",
    path: `${paths.app}/containers/{container_id}/exec`,
    about: `Runs a command in a running replica, as the app's user, with its variables, files, network and limits. The request opens a WebSocket with the subprotocol \`${execProtocol}\`, as Kubernetes has it: each message is binary, and its first byte names the channel: 0 standard input, 1 standard output, 2 error output, 3 the status as JSON at the end, 4 the size of the terminal (\`{"Width":80,"Height":24}\`); 255 followed by 0 ends the standard input. Pages send the token as one more subprotocol, \`${bearerProtocol}\` followed by the token in base64url. 400 without a WebSocket, 409 when the replica does not run or cannot run commands, 429 when too many are open.`,
    access: "apps.exec",
    audit: "replica.exec",
    query: execQuery,
    status: 101,
    answer: execStatus,
  },
} as const satisfies Record<string, Route>;
