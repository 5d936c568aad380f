// The platform's messages say what to do as operations of its API; whoever uses the command line gets its commands instead. Pure.

const commands: Readonly<Record<string, string>> = {
  "POST …/apps": "slipway deploy",
  "POST …/apps/git": "slipway deploy --git",
  "PATCH …/apps/{app}": "slipway apps set",
  "DELETE …/apps/{app}": "slipway apps delete",
  "POST …/apps/{app}/builds": "slipway builds start, or slipway deploy for corrected files",
  "POST …/apps/{app}/start": "slipway apps start",
  "POST …/apps/{app}/git-hook": "slipway git hook create",
  "DELETE …/builds/{build_id}": "slipway builds cancel",
  "PUT …/git-credentials/{host}": "slipway git credentials set",
};
const operation = /\b(?:GET|POST|PUT|PATCH|DELETE) …\/[\w{}/-]+/g;

/** The message, with a command for each operation that one does; `others` win over the usual ones. */
export function withCommands(message: string, others: Readonly<Record<string, string>> = {}): string {
  return message.replaceAll(operation, (found) => others[found] ?? commands[found] ?? found);
}

/** Where the files of a folder were deployed: a build would take those that were uploaded before. */
export const ofUploads: Readonly<Record<string, string>> = { "POST …/apps/{app}/builds": "slipway deploy" };
