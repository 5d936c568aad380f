// Who did something, and through which request: what every audit row names.

export type ActorType = "person" | "service_account" | "inference_token" | "operator" | "platform" | "anonymous";

/** Who acts. `id` is a person's or a token's id; null for the platform itself and for callers without a valid token. */
export type Actor = {
  readonly type: ActorType;
  readonly id: string | null;
  readonly name: string | null;
};

/** What is known of the request that caused an action. */
export type RequestFacts = {
  /** Null where it is not known any more which of many it was. */
  readonly id: string | null;
  readonly address: string | null;
  readonly userAgent: string | null;
};

/** By whom and how: handed to every use case that records. */
export type By = {
  readonly actor: Actor;
  readonly request?: RequestFacts;
};

/** The platform acting by itself: starting, building, scaling. */
export const platformActor: Actor = { type: "platform", id: null, name: "platform" };

/** A caller without a valid token. */
export const anonymousActor: Actor = { type: "anonymous", id: null, name: null };
