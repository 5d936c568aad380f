// `slipway logout`: ends the session of this machine on the platform and deletes the tokens stored
// here.
import { ApiClient } from "./api-client.ts";
import { command } from "./command.ts";
import { namedUrl, platformOptions } from "./connection.ts";
import { output } from "./output.ts";
import { Refused } from "./refused.ts";
import { isOfServiceAccount, readSignIns, writeSignIn } from "./sign-ins.ts";

/** Signs out. The stored tokens are deleted even when the platform is unreachable. */
export const logout = command({
  name: "logout",
  about: `Sign out on this machine: ends the session, revokes its tokens and removes them from here.
Other sessions, such as the one in your browser, stay active.`,
  examples: ["logout"],
  options: platformOptions,
  async run(given, machine) {
    const signIns = readSignIns(machine);
    const url = namedUrl(given, machine) ?? signIns.current;
    const signIn = url === null ? undefined : signIns.platforms[url];
    if (url === null || signIn === undefined) {
      machine.tell(
        url === null ? "You are not signed in anywhere." : `You are not signed in at ${url}.`,
      );
      output(given, machine, { url: null }, () => undefined);
      return;
    }
    writeSignIn(machine, url, null);
    const others = Object.keys(readSignIns(machine).platforms);
    if (others.length > 0 && signIns.current === url) {
      machine.tell(
        `You stay signed in at ${others.join(", ")}: commands use it when you name it with --url or SLIPWAY_URL.`,
      );
    }
    if (isOfServiceAccount(signIn)) {
      machine.tell(
        `The token of ${signIn.email} at ${url} was removed from this machine. It stays valid elsewhere.`,
      );
      output(given, machine, { url }, () => undefined);
      return;
    }
    const client = new ApiClient({ url, machine, bearer: () => Promise.resolve(null) });
    const body = { refresh_token: signIn.refreshToken };
    try {
      await client.ask({ method: "POST", path: "/v2/auth/sign-out", body });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      throw new Refused(
        `${error.message}\nThe sign-in was removed from this machine, but the platform was not notified: the session expires after 30 days without use.`,
        { cause: error },
      );
    }
    machine.tell(`Signed out of ${url}.`);
    output(given, machine, { url }, () => undefined);
  },
});
