// Branded identifiers and their constructors. The types keep ids of different kinds apart.
import crypto, { randomBytes, randomUUID } from "node:crypto";

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/** `p-` and eight hexadecimal digits. */
export type ProjectId = Branded<"ProjectId">;
/** `{projectId}-{appName}`; within the platform, `~2` and so on may follow: see `freeAppId`. */
export type AppId = Branded<"AppId">;
/** The id of a build: a UUID. */
export type BuildId = Branded<"BuildId">;
/** The id of a release: a UUID. */
export type ReleaseId = Branded<"ReleaseId">;
/** `{appName}-` and ten characters; unique among all replicas. */
export type ReplicaId = Branded<"ReplicaId">;
/** A UUID; equals the `X-Request-Id` of the answer. */
export type RunId = Branded<"RunId">;
/** The id of a token: a UUID. */
export type TokenId = Branded<"TokenId">;
/** A UUID; one delivery of one answer to one webhook, however many attempts it takes. */
export type DeliveryId = Branded<"DeliveryId">;
/** A UUID; one URL that a project has deliveries sent to. */
export type EndpointId = Branded<"EndpointId">;

/** A UUID; one push event of an app. */
export type GitDeliveryId = Branded<"GitDeliveryId">;

/** Names an app together with the project that it must belong to. */
export type AppKey = { readonly projectId: ProjectId; readonly appId: AppId };

/** Ids with `dev-` in front are accepted too, although the platform makes none. */
const projectIdPattern = "(?:dev-)?p-[0-9a-f]{8}";
/** The form of a project id. */
export const projectIdForm = new RegExp(`^${projectIdPattern}$`);
const beginsWithProjectId = new RegExp(`^${projectIdPattern}`);
/** The form of a UUID as the platform writes it. */
export const uuidForm = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** The form of an app name. */
export const appNameForm = /^[a-z0-9-]{3,30}$/;

/** Returns a new random id; the database refuses an id that is already taken, which is rare. */
export function newProjectId(): ProjectId {
  return `p-${randomBytes(4).toString("hex")}` as ProjectId;
}

/** Returns the id of the app with this name in this project. */
export function appIdOf(projectId: ProjectId, appName: string): AppId {
  return `${projectId}-${appName}` as AppId;
}

/**
 * Returns an id for a new app. `taken`: the ids of deleted apps with the same name that are still
 * being removed.
 */
export function freeAppId(appId: AppId, taken: readonly AppId[]): AppId {
  // An id without a number counts as the first.
  const numbers = taken.map((takenId) => Number(takenId.split("~")[1] ?? "1"));
  return taken.length === 0 ? appId : (`${appId}~${Math.max(...numbers) + 1}` as AppId);
}

const numberedAppId = new RegExp(`^(${projectIdPattern}-[a-z0-9-]{3,30})~\\d+$`);

/** Returns the id of an app as callers know it, and any other text unchanged. */
export function shownAppId<Id extends string>(id: Id): Id {
  return id.replace(numberedAppId, "$1") as Id;
}

/** Returns the id of an app's project. */
export function projectIdOf(appId: AppId): ProjectId {
  return (beginsWithProjectId.exec(appId)?.[0] ?? "") as ProjectId;
}

/** A new random id that begins with the time. */
export function newBuildId(): BuildId {
  return newTimedUuid() as BuildId;
}

/** A new random id that begins with the time. */
export function newReleaseId(): ReleaseId {
  return newTimedUuid() as ReleaseId;
}

/** A new random id that shows the app's name. */
export function newReplicaId(appName: string): ReplicaId {
  return `${appName}-${randomBytes(5).toString("hex")}` as ReplicaId;
}

/** A new random id that begins with the time. */
export function newRunId(): RunId {
  return newTimedUuid() as RunId;
}

/** A new random id. */
export function newTokenId(): TokenId {
  return randomUUID() as TokenId;
}

/** A new random id that begins with the time. */
export function newDeliveryId(): DeliveryId {
  return newTimedUuid() as DeliveryId;
}

/** A new random id that begins with the time. */
export function newGitDeliveryId(): GitDeliveryId {
  return newTimedUuid() as GitDeliveryId;
}

/**
 * Returns a UUID of version 7 (RFC 9562), so that rows made at the same time are neighbours in a
 * large index and share its pages. A Node version without it returns version 4, which is just as
 * unique.
 */
const newTimedUuid: () => string =
  "randomUUIDv7" in crypto ? (crypto.randomUUIDv7 as () => string) : randomUUID;
