// `slipway logout`: ends the session of this machine on the platform, and forgets its tokens here.
import { ApiRefused } from "./api-client.ts";
import { command } from "./command.ts";
import { connect, namedUrl, platformOptions } from "./connection.ts";
import { Refused } from "./refused.ts";
import { readSignIns, writeSignIn } from "./sign-ins.ts";

/** Signs out. */
export const logout = command({
  name: "logout",
  about: `Ends the sign-in of this machine: its tokens are worth nothing any more, and are removed from here.
Sign-ins elsewhere, such as in your browser, go on.`,
  options: platformOptions,
  async run(given, machine) {
    const signIns = readSignIns(machine);
    const url = namedUrl(given, machine) ?? signIns.current;
    const signIn = url === null ? undefined : signIns.platforms[url];
    if (url === null || signIn === undefined) {
      machine.tell(url === null ? "You are not signed in anywhere." : `You are not signed in at ${url}.`);
      return;
    }
    // The token of the environment is another one; it must not be signed out by accident.
    const { client } = connect(given, { ...machine, environment: { ...machine.environment, SLIPWAY_TOKEN: "" } });
    try {
      await client.ask({ method: "POST", path: "/v2/auth/sign-out", body: {} });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const isOver = !(error instanceof ApiRefused) && error.message.includes("has ended");
      if (!isOver) machine.tell(`The platform could not be told: ${error.message}`);
    }
    writeSignIn(machine, url, null);
    machine.tell(`Signed out of ${url}.`);
  },
});
