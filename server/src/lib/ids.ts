// Branded identifiers and how they are made. Two ids of different kinds cannot be mixed up by accident.
import crypto, { randomBytes, randomUUID } from "node:crypto";

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/** `p-` and eight hexadecimal digits. */
export type ProjectId = Branded<"ProjectId">;
/** `{projectId}-{appName}`. */
export type AppId = Branded<"AppId">;
/** A UUID. */
export type BuildId = Branded<"BuildId">;
/** A UUID. */
export type ReleaseId = Branded<"ReleaseId">;
/** `{appName}-` and ten characters; unique among all replicas. */
export type ReplicaId = Branded<"ReplicaId">;
/** A UUID; equals the `X-Request-Id` of the answer. */
export type RunId = Branded<"RunId">;
/** A UUID. */
export type TokenId = Branded<"TokenId">;
/** A UUID; one delivery of one answer to one webhook, whatever number of attempts it takes. */
export type DeliveryId = Branded<"DeliveryId">;
/** A UUID; one URL that a project has deliveries sent to. */
export type EndpointId = Branded<"EndpointId">;

/** What a project id looks like. */
export const projectIdForm = /^(dev-)?p-[0-9a-f]{8}$/;
/** What a UUID looks like, as the platform writes it. */
export const uuidForm = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** What an app may be called. */
export const appNameForm = /^[a-z0-9-]{3,30}$/;

/** A new random id; the database refuses the rare one that is taken. */
export function newProjectId(): ProjectId {
  return `p-${randomBytes(4).toString("hex")}` as ProjectId;
}

/** The id of the app of this name: ids of apps are made of both. */
export function appIdOf(projectId: ProjectId, appName: string): AppId {
  return `${projectId}-${appName}` as AppId;
}

/** The project of an app. */
export function projectIdOf(appId: AppId): ProjectId {
  return (/^(?:dev-)?p-[0-9a-f]{8}/.exec(appId)?.[0] ?? "") as ProjectId;
}

/** A new random id. */
export function newBuildId(): BuildId {
  return randomUUID() as BuildId;
}

/** A new random id. */
export function newReleaseId(): ReleaseId {
  return randomUUID() as ReleaseId;
}

/** A new random id that shows the app's name. */
export function newReplicaId(appName: string): ReplicaId {
  return `${appName}-${randomBytes(5).toString("hex")}` as ReplicaId;
}

/** A new random id, which begins with the time. */
export function newRunId(): RunId {
  return newTimedUuid() as RunId;
}

/** A new random id. */
export function newTokenId(): TokenId {
  return randomUUID() as TokenId;
}

/** A new random id, which begins with the time. */
export function newDeliveryId(): DeliveryId {
  return newTimedUuid() as DeliveryId;
}

/**
 * A UUID of version 7 (RFC 9562): the rows of what comes at the same time then lie side by side in an index of millions,
 * instead of each touching another page. A node that cannot make them gives version 4, which is as unique.
 */
const newTimedUuid: () => string = "randomUUIDv7" in crypto ? (crypto.randomUUIDv7 as () => string) : randomUUID;
