// `npm run examples`: serves the folder examples/ as the git repository acme/examples over HTTP, through git's own
// http-backend, on 127.0.0.1:7080, so that the tour in the README works without an account anywhere.
import { exampleFiles } from "@slipway/server/test/support/examples.ts";
import { openGitServer } from "@slipway/server/test/support/git-server.ts";

const port = 7080;
const server = await openGitServer({ at: { host: "127.0.0.1", port } });
await server.createRepo("acme", "examples", await exampleFiles());
process.stdout.write(
  `examples/ is served as the repository acme/examples. Start the platform in another terminal with\n\n` +
    `  SLIPWAY_GIT_URL='http://127.0.0.1:${port}/{owner}/{repo}.git' npm start\n\nEnd this with Ctrl-C.\n`,
);
const stop = (): void => void server.close().then(() => process.exit(0));
process.once("SIGINT", stop);
process.once("SIGTERM", stop);
