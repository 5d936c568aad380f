// Prints what breaks the rules of `rules.ts`, a line each; ends with 1 when there is anything.
import { formatFinding, tidyFindings } from "./tidy/tidy.ts";

const findings = tidyFindings();
for (const finding of findings) console.log(formatFinding(finding));
process.exitCode = findings.length === 0 ? 0 : 1;
