// What older clients of the published interface send beyond the document of today, and what becomes
// of it. The management API reads requests by this table; docs/errors.md shows it.

/**
 * Requests that these clients send: management routes of a project, and a login. None of them is
 * authorized by a cookie.
 */
const publishedPaths = /^\/+(?:v[23]\/+projects(?:\/|$)|(?:device-authorization|token)(?:\?|$))/;

/** Their parts of an upload to a volume have so many bytes, but for the last one. */
export const olderPartBytes = 52_428_800;

/** The rows that docs/errors.md shows, one for each kind of leniency. */
export const olderClients = [
  {
    sent: "a JSON body without `Content-Type`",
    on: "`/v2/projects/…`, `/v3/projects/…`, `/device-authorization` and `/token`",
    taken: "as `application/json`",
  },
  {
    sent: "`projectId` in the query or in the body",
    on: "paths of a project, where the document has no such name",
    taken: "ignored if it is the project of the path, and refused otherwise",
  },
  {
    sent: "a parameter of the query twice, such as `region`",
    on: "every path",
    taken: "as one if both have the same value, and refused otherwise",
  },
  {
    sent: "fields of the body repeated in the query",
    on: "every path, where the document has no such parameter",
    taken: "ignored if body and query agree, and refused otherwise",
  },
  {
    sent: "`X-CLI-Version: 1.…`",
    on: "every path",
    taken: "success is answered 200, also where it is 201: such a client knows no other",
  },
  {
    sent: "`X-CLI-Version: 1.…`",
    on: "`GET …/volumes/{volume_id}/ls`",
    taken:
      "a folder that is not there has no files: the client lists it before it uploads the first file to it",
  },
  {
    sent: "`X-CLI-Version: 1.…`",
    on: "`POST …/volumes/{volume_id}/cp/initialize`",
    taken: `the parts of this upload have ${olderPartBytes} bytes`,
  },
  {
    sent: "`X-CLI-Version: 1.…`",
    on: "`GET …/apps/{app_id}/runs`",
    taken: "each run has `isAsync` besides `async`: such a client shows no other",
  },
] as const;

/** Whether JSON without a content type is read at this path. */
export function takesUntypedJson(url: string): boolean {
  return publishedPaths.test(url);
}

/** Whether this `X-CLI-Version` is one that takes only 200 for success and has large parts. */
export function isOlderClient(version: string | string[] | undefined): boolean {
  return typeof version === "string" && version.startsWith("1.");
}

/** The project's id as these clients repeat it. */
export const repeatedProject = "projectId";
