// The actor and the request behind an action, as every audit row names them.

export type ActorType = "person" | "service_account" | "inference_token" | "operator" | "platform" | "anonymous";

/** The acting party. `id` is a person's or a token's id; null for the platform itself and for callers without a valid token. */
export type Actor = {
  readonly type: ActorType;
  readonly id: string | null;
  readonly name: string | null;
};

/** The known facts about the request that caused an action. */
export type RequestFacts = {
  /** Null when many requests caused the action and the exact one is unknown. */
  readonly id: string | null;
  readonly address: string | null;
  readonly userAgent: string | null;
};

/** The actor and the request: a parameter of every use case that records. */
export type By = {
  readonly actor: Actor;
  readonly request?: RequestFacts;
};

/** The platform acting on its own: starting, building, scaling. */
export const platformActor: Actor = { type: "platform", id: null, name: "platform" };

/** A caller without a valid token. */
export const anonymousActor: Actor = { type: "anonymous", id: null, name: null };
