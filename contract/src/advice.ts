// What people can do about an app that was not built or does not start, in the words of every message.

/** Follows `then`, `or`, … */
export const buildAgain = "build it again (POST …/apps/{app}/builds)";

/** Where a field of an app is changed. */
export const changeField = "PATCH …/apps/{app}";

/** The same for a field that a build depends on, such as the repository. */
export const changeAndBuild = `${changeField}, which builds it again`;
