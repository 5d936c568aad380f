// A stand-in for nvidia-smi: a program that answers --query-gpu in CSV for the cards of a table,
// and fails as the real one does.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * A card as its driver reports it. Other texts than numbers, such as `[N/A]`, stand as they are.
 */
export type TestCard = {
  readonly name: string;
  readonly uuid: string;
  readonly busId: string;
  readonly totalMib: number | string;
  readonly usedMib?: number | string;
  readonly percent?: number | string;
};

/** What the program prints instead of rows or after them, and its exit code. */
export type TestFailure = {
  readonly says: string;
  readonly exitCode: number;
  readonly isAfterRows?: boolean;
};

const columns = "index,uuid,name,pci.bus_id,memory.total,memory.used,utilization.gpu";

/** Reads the table at each call, so that a test can change it. */
const program = `#!/bin/sh
here=$(dirname "$0")
query= format=
for word in "$@"; do
  case $word in
    --query-gpu=*) query=\${word#*=} ;;
    --format=*) format=\${word#*=} ;;
    *) echo "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help." >&2; exit 2 ;;
  esac
done
[ -e "$here/after" ] || [ ! -e "$here/failure" ] || { cat "$here/failure"; exit "$(cat "$here/code")"; }
awk -F'\\t' -v query="$query" -v format="$format" -v columns="${columns}" '
  BEGIN { count = split(query, asked, ","); split(columns, known, ","); for (i in known) at[known[i]] = i
    for (i = 1; i <= count; i++) if (!(asked[i] in at)) { printf "Field \\"%s\\" is not a valid field to query.\\n\\n", asked[i]; exit 2 } }
  { line = ""
    for (i = 1; i <= count; i++) {
      value = $(at[asked[i]]); if (value ~ /^[0-9]+$/ && format !~ /nounits/) value = value (asked[i] ~ /memory/ ? " MiB" : asked[i] ~ /utilization/ ? " %" : "")
      line = line (i > 1 ? ", " : "") value }
    print line }' "$here/cards" || exit $?
[ ! -e "$here/failure" ] || { cat "$here/failure"; exit "$(cat "$here/code")"; }
`;

/** The program in a folder, which belongs in front of a PATH. */
export class NvidiaSmi {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "nvidia-smi"), program, { mode: 0o755 });
    this.show([]);
  }

  /** From now on it shows these cards, and fails like this afterwards or instead. */
  show(cards: readonly TestCard[], failure?: TestFailure): void {
    const rows = cards.map(({ name, uuid, busId, totalMib, usedMib = 0, percent = 0 }, index) =>
      [index, uuid, name, busId, totalMib, usedMib, percent].join("\t"),
    );
    writeFileSync(join(this.folder, "cards"), rows.map((row) => `${row}\n`).join(""));
    for (const name of ["failure", "code", "after"])
      rmSync(join(this.folder, name), { force: true });
    if (failure === undefined) return;
    writeFileSync(join(this.folder, "code"), String(failure.exitCode));
    if (failure.isAfterRows === true) writeFileSync(join(this.folder, "after"), "");
    writeFileSync(join(this.folder, "failure"), `${failure.says}\n`);
  }
}

/** A card with a UUID of its own. */
export function testCard(number: number, given: Partial<TestCard> = {}): TestCard {
  const digits = String(number).padStart(2, "0");
  return {
    name: "NVIDIA L4",
    totalMib: 23034,
    usedMib: 0,
    percent: 0,
    uuid: `GPU-5a1b8c20-4f7d-9e3a-6b${digits}-0c9d8e7f6a${digits}`,
    busId: `00000000:${digits}:00.0`,
    ...given,
  };
}

/** What the real program says. */
export const failures = {
  noDevices: { says: "No devices were found", exitCode: 6 },
  noDriver: {
    says: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n",
    exitCode: 9,
  },
  mismatch: {
    says: "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.54",
    exitCode: 18,
  },
  offTheBus: (busId: string): TestFailure => ({
    says: `Unable to determine the device handle for GPU${busId.slice(4)}: Unknown Error`,
    exitCode: 255,
  }),
  lost: (busId: string): TestFailure => ({
    says: `Unable to determine the device handle for GPU ${busId.slice(4)}: Unable to communicate with GPU because it is lost.  Reboot the system to recover this GPU`,
    exitCode: 15,
    isAfterRows: true,
  }),
} as const;
