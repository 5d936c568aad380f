// Routes of roll-outs: reading the latest one of an app, and steering it.
import type { Field } from "./field.ts";
import { rollOut } from "./roll-out-answers.ts";
import { paths, type Route } from "./route.ts";

const rollOutPath = `${paths.app}/rollout` as const;

/** The query of `…/rollout`. */
const rollOutQuery = {
  follow: {
    kind: "boolean",
    toml: null,
    default: false,
    about: "Follows the roll-out live, as server-sent events.",
  },
} as const satisfies Record<string, Field>;

/** By operation id; part of the table in `routes.ts`. */
export const rollOutRoutes = {
  getRollOut: {
    method: "GET",
    path: rollOutPath,
    about:
      "The latest roll-out of an app. With `Accept: text/event-stream` or `follow=true` it is followed live as server-sent events, one for each change, until an event `end`.",
    access: "apps.read",
    audit: null,
    query: rollOutQuery,
    status: 200,
    answer: rollOut,
    events: rollOut,
  },
  pauseRollOut: {
    method: "POST",
    path: `${rollOutPath}/pause`,
    about: "Pauses a roll-out: both releases keep their shares of the calls.",
    access: "apps.update",
    audit: "rollout.pause",
    status: 200,
    answer: rollOut,
  },
  resumeRollOut: {
    method: "POST",
    path: `${rollOutPath}/resume`,
    about: "Resumes a paused roll-out where it was.",
    access: "apps.update",
    audit: "rollout.resume",
    status: 200,
    answer: rollOut,
  },
  finishRollOut: {
    method: "POST",
    path: `${rollOutPath}/finish`,
    about:
      "Ends a roll-out at once: the new release gets all calls as soon as its replicas can take them.",
    access: "apps.update",
    audit: "rollout.finish",
    status: 200,
    answer: rollOut,
  },
  cancelRollOut: {
    method: "POST",
    path: `${rollOutPath}/cancel`,
    about:
      "Takes a roll-out back: the release before gets all calls again. Running calls end where they began.",
    access: "apps.update",
    audit: "rollout.take_back",
    status: 200,
    answer: rollOut,
  },
} as const satisfies Record<string, Route>;
