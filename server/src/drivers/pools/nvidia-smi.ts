// Reads what nvidia-smi prints about the cards of this machine, in the formats of its versions so
// far. Pure.
import type { ComputeType } from "@slipway/contract/app-choices.ts";
import type { GpuUse } from "./pool.ts";

/** A card that answers. */
export type SeenCard = {
  /** The card's id: `GPU-` and its UUID. */
  readonly id: string;
  readonly name: string;
  /** Null: not one of the types that apps can ask for. */
  readonly compute: ComputeType | null;
  readonly memoryGb: number;
  readonly busId: string;
  /** Null: it cannot be measured now. */
  readonly use: GpuUse | null;
};

/** `lost`: bus ids of cards that do not answer. `failed`: nothing is known about any other card. */
export type SeenCards =
  | { readonly kind: "seen"; readonly cards: readonly SeenCard[]; readonly lost: readonly string[] }
  | { readonly kind: "failed"; readonly reason: string; readonly lost: readonly string[] };

/** What the program prints about each card: the columns of a row, in this order. */
const fields = ["uuid", "name", "pci.bus_id", "memory.total", "memory.used", "utilization.gpu"];

/** The arguments with which nvidia-smi prints the lines that `readCards` reads. */
export const cardArguments = [
  `--query-gpu=${fields.join(",")}`,
  "--format=csv,noheader,nounits",
] as const;

/** The output when there is no card, or no driver that could find one. */
const noCards =
  /No devices were found|couldn't communicate with the NVIDIA driver|NVML: (?:Driver Not Loaded|Unknown)/i;
/** The message about a card that does not answer; it has the card's bus id. */
const lostCard = /Unable to determine the device handle for GPU ?([0-9A-Fa-f:.]+)/;
/** The first column of a row; other lines are messages. */
const cardId = /^GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** How much of the program's message is given as the reason of a failure. */
const reasonLengthMax = 200;
/** An A100 has 40 or 80 GB; only the larger kind has more than this. */
const largeA100Mib = 50_000;

/**
 * Reads the output and the exit code of the program. A row without the memory of its card is of a
 * card that does not answer.
 */
export function readCards(lines: readonly string[], exitCode: number): SeenCards {
  const rows = lines
    .map((line) => line.split(",").map((part) => part.trim()))
    .filter(([id = ""]) => cardId.test(id));
  const listed = rows.map((row) => readRow(row));
  const cards = listed.filter((card) => card.memoryGb > 0);
  const broken = listed.filter((card) => card.memoryGb === 0).map(({ busId }) => busId);
  const namedLost = lines.flatMap((line) => lostCard.exec(line)?.[1] ?? []).map(plainBusId);
  const lost = [...broken, ...namedLost];
  // A machine without cards is no failure: the program says so, or prints nothing.
  const saysNoCards = namedLost.length === 0 && noCards.test(lines.join("\n"));
  const isEmpty = exitCode === 0 && lines.every((line) => line.trim() === "");
  if (rows.length > 0 || saysNoCards || isEmpty) return { kind: "seen", cards, lost };
  const reason = lines.find((line) => line.trim() !== "") ?? `it exited with code ${exitCode}`;
  return { kind: "failed", reason: reason.trim().slice(0, reasonLengthMax), lost };
}

/** Reads a row, which has the order of `fields`. */
function readRow([
  id = "",
  name = "",
  busId = "",
  total = "",
  used = "",
  utilization = "",
]: readonly string[]): SeenCard {
  const totalMib = numberOf(total) ?? 0;
  const usedMib = numberOf(used);
  const percent = numberOf(utilization);
  return {
    id,
    name,
    busId: plainBusId(busId),
    // A MiB has 1.048576 MB; the result is rounded to thousandths of a GB.
    memoryGb: Math.round(totalMib * 1.048576) / 1000,
    compute: typeOf(name, totalMib),
    // Utilization is [N/A] in MIG mode.
    use:
      usedMib === null
        ? null
        : { memoryBytes: usedMib * 1_048_576, utilization: (percent ?? 0) / 100 },
  };
}

/** Null for `[N/A]`, `[Not Supported]`, `[GPU is lost]`, `[Unknown Error]` and the like. */
function numberOf(text: string): number | null {
  return /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : null;
}

/** A bus id with a domain of four digits: some versions print eight. */
function plainBusId(text: string): string {
  const [domain = "", ...rest] = text
    .toLowerCase()
    .replace(/[:.]+$/, "")
    .split(":");
  return [domain.slice(-4), ...rest].join(":");
}

/** Compute types by the names that drivers report. The first match counts. */
const models: readonly (readonly [RegExp, ComputeType])[] = [
  [/\bT4\b/, "TURING_T4"],
  [/\bL40S?\b/, "ADA_L40"],
  [/\bL4\b/, "ADA_L4"],
  [/\bA10G?\b/, "AMPERE_A10"],
  [/\bH100\b/, "HOPPER_H100"],
  [/\bH200\b/, "HOPPER_H200"],
  [/\bB200\b/, "BLACKWELL_B200"],
  [/\bRTX PRO 6000\b.*\bBlackwell\b/, "BLACKWELL_RTX6000"],
];

function typeOf(name: string, totalMib: number): ComputeType | null {
  if (/\bA100\b/.test(name))
    return totalMib > largeA100Mib ? "AMPERE_A100_80GB" : "AMPERE_A100_40GB";
  return models.find(([form]) => form.test(name))?.[1] ?? null;
}
