// Prints violations of the rules in `rules.ts`, one per line; exits with 1 if there are any.
import { formatFinding, tidyFindings } from "./tidy/tidy.ts";

const findings = tidyFindings();
for (const finding of findings) console.log(formatFinding(finding));
process.exitCode = findings.length === 0 ? 0 : 1;
