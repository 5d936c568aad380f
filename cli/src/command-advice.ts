// The platform's messages say what to do as operations of its API; whoever uses the command line
// gets its commands instead. Pure.

/**
 * The command for what a message advises. For an app whose files were uploaded, a build that is
 * only started again takes the earlier files.
 */
const commands: Readonly<Record<string, string>> = {
  "POST …/apps": "slipway deploy",
  "POST …/apps/git": "slipway deploy --git",
  "PATCH …/apps/{app}": "slipway apps set",
  "DELETE …/apps/{app}": "slipway apps delete",
  "POST …/apps/{app}/builds": "slipway deploy, or for an app of a repository slipway builds start",
  "POST …/apps/{app}/start": "slipway apps start",
  "POST …/apps/{app}/git-hook": "slipway git hook create",
  "DELETE …/builds/{build_id}": "slipway builds cancel",
  "PUT …/git-credentials/{host}": "slipway git credentials set",
};
const operation = /\b(?:GET|POST|PUT|PATCH|DELETE) …\/[\w{}/-]+/g;

/** The message, with a command for each operation that one does. */
export function withCommands(message: string): string {
  return message.replaceAll(operation, (found) => commands[found] ?? found);
}
