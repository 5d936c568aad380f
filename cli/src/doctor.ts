// `slipway doctor`: checks this machine and the platform that commands use, and says what to do
// about what is missing.
import { command } from "./command.ts";
import { checks } from "./doctor-checks.ts";
import { printJson } from "./output.ts";

/** Reports each check. */
export const doctor = command({
  name: "doctor",
  about: `Check what a platform on this machine needs (git, Docker, Python, user namespaces, port, disk), and the platform that
commands use; whether the platform here is reached at its public URL, and how its database grows. The Docker engine has to build
an image, make a network and run a container; all three are removed again, and nothing else is changed. A warning says what will
not work. Exits with 1 if a check fails.`,
  examples: ["doctor", "doctor --json"],
  async run(given, machine) {
    const found = [];
    for (const { name, run } of checks) {
      const finding = { name, ...(await run(machine)) };
      found.push(finding);
      if (given.has("json")) continue;
      machine.print(`${finding.state.padEnd(stateWidth)}${name.padEnd(nameWidth)}${finding.about}`);
      if (finding.todo !== undefined)
        machine.print(`${" ".repeat(stateWidth + nameWidth)}${finding.todo}`);
    }
    if (given.has("json")) printJson(machine, found);
    return found.some(({ state }) => state === "fault") ? 1 : 0;
  },
});

const stateWidth = "warning".length + 2;
const nameWidth = Math.max(...checks.map(({ name }) => name.length)) + 2;
