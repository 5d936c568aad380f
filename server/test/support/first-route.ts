// What a route says of an app that was never restarted or rolled out, for tests that make routes.

/** The fields that routes of the proxy and of the scheduler share. */
export const firstRoute = { restarts: 0, rollOut: null, refusedReleaseId: null } as const;
