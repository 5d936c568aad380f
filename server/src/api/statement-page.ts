// A statement as a page to read and print. It has no script, and its policy allows only its style.
import { createHash } from "node:crypto";
import type { Statement } from "#billing/statements/statement-queries.ts";
import { escaped } from "./html-text.ts";
import { decimalOf, secondsOf } from "./show-money.ts";

const style = `
body { font: 14px/1.5 system-ui, sans-serif; color: #1b1f24; margin: 2.5rem auto; max-width: 60rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; }
p { margin: .25rem 0 1.5rem; color: #57606a; }
table { border-collapse: collapse; width: 100%; margin-bottom: 1.5rem; }
caption { text-align: left; font-weight: 600; padding: .5rem 0; }
th, td { text-align: left; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid #d0d7de; vertical-align: top; }
th { font-weight: 600; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tfoot td { border-bottom: 0; font-weight: 600; }
@media print { body { margin: 0; max-width: none; } thead { display: table-header-group; } tr { break-inside: avoid; } }
`;

/** The value of the page's header `Content-Security-Policy`. */
export const statementPagePolicy = `default-src 'none'; style-src 'sha256-${createHash("sha256").update(style).digest("base64")}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** The whole page as HTML. */
export function statementPage(projectId: string, { content, closedAt }: Statement): string {
  const { period, currency } = content;
  const state =
    closedAt === null
      ? "Open: it can change until one day after the end of its month."
      : `Closed on ${closedAt.toISOString().slice(0, 10)}.`;
  const title = `Statement ${period}, project ${projectId}`;
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escaped(title)}</title><style>${style}</style></head>
<body>
<h1>Statement ${escaped(period)}</h1>
<p>Project ${escaped(projectId)}. Amounts in ${escaped(currency)}; months begin and end at midnight UTC. ${escaped(state)}</p>
${usageTable(content)}
${discountTable(content)}
${correctionTable(content)}
${totalTable(content)}
</body>
</html>
`;
}

type Content = Statement["content"];

/** The text for what a line of usage pays for; for builds it has their number. */
function sourceOf({ kind, builds }: Content["lines"][number]): string {
  if (kind === "run") return "replicas";
  if (kind === "storage") return "persistent storage";
  return builds === 1 ? "1 build" : `${builds} builds`;
}

function usageTable({ lines, usageMicros }: Content): string {
  const rows = lines.map((line) => [
    line.appId,
    sourceOf(line),
    [line.compute, line.computeTier, line.pool].filter((part) => part !== "").join(", "),
    secondsOf(line.ms).toFixed(3),
    secondsOf(line.gpuMs).toFixed(3),
    secondsOf(line.coreMs).toFixed(3),
    secondsOf(line.gbMs).toFixed(3),
    decimalOf(BigInt(line.micros)),
  ]);
  const head = [
    "App",
    "Used by",
    "Compute",
    "Seconds",
    "GPU seconds",
    "Core seconds",
    "GB seconds",
    "Amount",
  ];
  return table({ caption: "Usage", head, rows, texts: 3, sum: decimalOf(BigInt(usageMicros)) });
}

function discountTable({ discounts, discountMicros }: Content): string {
  if (discounts.length === 0) return "";
  const rows = discounts.map(({ code, name, micros }) => [code, name, decimalOf(-BigInt(micros))]);
  const sum = decimalOf(-BigInt(discountMicros));
  return table({ caption: "Coupons", head: ["Code", "Name", "Amount"], rows, texts: 2, sum });
}

function correctionTable({ corrections, correctionMicros }: Content): string {
  if (corrections.length === 0) return "";
  const rows = corrections.map(({ period, usageMicros, discountMicros }) => [
    period,
    decimalOf(BigInt(usageMicros)),
    decimalOf(-BigInt(discountMicros)),
    decimalOf(BigInt(usageMicros) - BigInt(discountMicros)),
  ]);
  const caption = "Corrections of earlier months, found after their statements were closed";
  const sum = decimalOf(BigInt(correctionMicros));
  return table({ caption, head: ["Month", "Usage", "Coupons", "Amount"], rows, texts: 1, sum });
}

function totalTable({ totalMicros, currency }: Content): string {
  return table({
    caption: "Total",
    head: ["", "Amount"],
    rows: [[currency, decimalOf(BigInt(totalMicros))]],
    texts: 1,
    sum: null,
  });
}

type Table = {
  readonly caption: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** The number of leading columns that are text; the others are numbers. */
  readonly texts: number;
  /** The sum in the last line of the table; null: the table has no such line. */
  readonly sum: string | null;
};

function table({ caption, head, rows, texts, sum }: Table): string {
  const row = (cells: readonly string[], tag: "th" | "td"): string => {
    const markup = cells.map((text, index) => {
      const numberClass = index < texts ? "" : ' class="n"';
      return `<${tag}${numberClass}>${escaped(text)}</${tag}>`;
    });
    return `<tr>${markup.join("")}</tr>`;
  };
  // The sum stands in the last column, after empty cells.
  const emptyCells = head.slice(1).map(() => "");
  const foot = sum === null ? "" : `<tfoot>${row([...emptyCells, sum], "td")}</tfoot>`;
  const body = rows.map((cells) => row(cells, "td")).join("");
  return `<table><caption>${escaped(caption)}</caption><thead>${row(head, "th")}</thead><tbody>${body}</tbody>${foot}</table>`;
}
