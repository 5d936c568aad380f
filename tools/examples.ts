// `npm run examples`: serves the folder examples/ as the git repository acme/examples over HTTP, through git's own
// http-backend, on 127.0.0.1:7080 (or the port given as an argument), so that the tour in the README works without an account
// anywhere.
import { once } from "node:events";
import { createServer } from "node:net";
import { exampleFiles } from "@slipway/server/test/support/examples.ts";
import { openGitServer } from "@slipway/server/test/support/git-server.ts";

const port = Number(process.argv[2] ?? 7080);
const why = await problemWith(port);
if (why !== null) {
  process.stderr.write(`${why}. Choose a free port, for example: npm run examples -- 7081\n`);
  process.exit(1);
}
const server = await openGitServer({ at: { host: "127.0.0.1", port } });
await server.createRepo("acme", "examples", await exampleFiles());
process.stdout.write(
  `examples/ is served as the repository acme/examples. Start the platform in another terminal with\n\n` +
    `  SLIPWAY_GIT_URL='http://127.0.0.1:${port}/{owner}/{repo}.git' npm start\n\nEnd this with Ctrl-C.\n`,
);
const stop = (): void => void server.close().then(() => process.exit(0));
process.once("SIGINT", stop);
process.once("SIGTERM", stop);

/** Why nothing can listen there; null: the port is free. */
async function problemWith(port: number): Promise<string | null> {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) return `${process.argv[2]} is no port`;
  const probe = createServer().listen(port, "127.0.0.1");
  try {
    await once(probe, "listening");
    probe.close();
    return null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "EADDRINUSE" ? `Another program has port ${port}` : `Port ${port} cannot be used (${code})`;
  }
}
