// The picture of the guide: for each load, how many replicas each contender has over the hour.
import { callsPerReplica } from "./contender.ts";
import type { Compared } from "./comparison.ts";
import { hourSeconds } from "./load-shapes.ts";

const width = 720;
const height = 110;
const gap = 46;
const left = 40;
const top = 40;
/** One point each, its mean over these seconds. */
const pointSeconds = 10;
const lines = [
  { who: "knative", name: "Knative", color: "#d97706" },
  { who: "slipway", name: "Slipway", color: "#2563eb" },
  { who: "perfect", name: "perfect line", color: "#16a34a" },
] as const;

/** An SVG with one chart below the other. It has a background of its own, for dark pages. */
export function curvesSvg(all: readonly Compared[]): string {
  const whole = top + all.length * (height + gap);
  const legend = lines.map(
    ({ name, color }, index) =>
      `<rect x="${left + index * 120}" y="14" width="14" height="4" fill="${color}"/><text x="${left + 20 + index * 120}" y="20">${name}</text>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width + left + 20} ${whole}" font-family="sans-serif" font-size="12">`,
    `<rect width="100%" height="100%" fill="#ffffff"/>`,
    ...legend,
    ...all.flatMap((compared, index) => chart(compared, top + index * (height + gap))),
    "</svg>",
    "",
  ].join("\n");
}

function chart(compared: Compared, y: number): string[] {
  const curves = lines.map(({ who, color }) => ({ color, points: pointsOf(compared[who].curve) }));
  const max = Math.max(1, ...curves.flatMap(({ points }) => points));
  const at = (index: number, count: number): string =>
    `${(left + (index * pointSeconds * width) / hourSeconds).toFixed(1)},${(y + height - (count / max) * height).toFixed(1)}`;
  return [
    `<text x="${left}" y="${y - 6}" font-weight="bold">${compared.shape.name}</text>`,
    `<text x="${left - 6}" y="${y + 10}" text-anchor="end">${Math.round(max)}</text>`,
    `<text x="${left - 6}" y="${y + height}" text-anchor="end">0</text>`,
    `<rect x="${left}" y="${y}" width="${width}" height="${height}" fill="none" stroke="#cbd5e1"/>`,
    ...curves.map(
      ({ color, points }) =>
        `<polyline fill="none" stroke="${color}" stroke-width="1.3" points="${points.map((count, index) => at(index, count)).join(" ")}"/>`,
    ),
    `<text x="${left + width}" y="${y + height + 14}" text-anchor="end">one hour; replicas of ${callsPerReplica} calls</text>`,
  ];
}

function pointsOf(curve: readonly number[]): number[] {
  return Array.from({ length: hourSeconds / pointSeconds }, (_, index) => {
    const part = curve.slice(index * pointSeconds, (index + 1) * pointSeconds);
    return part.reduce((sum, count) => sum + count, 0) / Math.max(1, part.length);
  });
}
