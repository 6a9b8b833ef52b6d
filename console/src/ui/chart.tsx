// Small charts of the last hour. What they show stands beside them as text.

const width = 600, height = 96;

// path draws values from left to right, by their times.
const path = (points: [number, number][]) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

// Spark is a line without axes.
export function Spark({ values, label }: { values: number[]; label: string }) {
  if (values.length < 2) return null;
  const most = Math.max(1, ...values);
  const points = values.map((v, i): [number, number] => [(i / (values.length - 1)) * 78 + 1, 19 - (v / most) * 17]);
  return <svg class="spark" viewBox="0 0 80 20" role="img" aria-label={label}><path d={path(points)} /></svg>;
}

export interface Stacked { at: number; below: number; above: number; line: number }

// Stack draws two areas, one on the other, and a line over them. Its times end with the last sample.
export function Stack({ samples, label }: { samples: Stacked[]; label: string }) {
  const first = samples[0]!.at, last = samples.at(-1)!.at;
  const most = Math.max(1, ...samples.map((s) => Math.max(s.below + s.above, s.line)));
  const x = (s: Stacked) => ((s.at - first) / Math.max(1, last - first)) * width;
  const y = (n: number) => height - (n / most) * (height - 4);
  const area = (upper: (s: Stacked) => number, lower: (s: Stacked) => number) =>
    `${path([...samples.map((s): [number, number] => [x(s), y(upper(s))]), ...[...samples].reverse().map((s): [number, number] => [x(s), y(lower(s))])])}z`;
  return (
    <svg class="stacked" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path class="g-below" d={area((s) => s.below, () => 0)} />
      <path class="g-above" d={area((s) => s.below + s.above, (s) => s.below)} />
      <path class="g-line" d={path(samples.map((s) => [x(s), y(s.line)]))} />
    </svg>
  );
}
