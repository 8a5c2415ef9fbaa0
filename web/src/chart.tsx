// The rates of a program's radios over time.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type Curve, SAMPLES } from "./history";

const HEIGHT = 180;
const DASHES = [[], [8, 4], [2, 3], [12, 3, 2, 3]];

export const colour = (at: number) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--radio-${at % 6}`).trim();

const clock = (seconds: number) => new Date(seconds * 1000).toLocaleTimeString();

function options(names: string[], width: number, height: number): uPlot.Options {
  const soft = getComputedStyle(document.documentElement).getPropertyValue("--soft").trim();
  const rule = getComputedStyle(document.documentElement).getPropertyValue("--rule").trim();
  const axis = { stroke: soft, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 } };
  return {
    width,
    height,
    scales: { x: { range: (_, __, last) => [last - SAMPLES, last] }, y: { range: (_, __, top) => [0, Math.max(1, top * 1.1)] } },
    axes: [{ ...axis, space: 90, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 56, label: "Mbit/s", labelSize: 18 }],
    series: [
      { label: "time", value: (_, time) => (time === null ? "–" : clock(time)) },
      ...names.map((label, at) => ({
        label,
        stroke: colour(at),
        width: 2,
        // Not by colour alone.
        dash: DASHES[at % DASHES.length] ?? [],
        value: (_: uPlot, value: number | null) => (value === null ? "–" : `${value.toFixed(1)} Mbit/s`),
      })),
    ],
  };
}

/** A line beside a number: its samples over two minutes, from zero to the largest one. The number is the newest sample. */
export function Trace({ samples, least }: { samples: (number | null)[] | undefined; least: number }) {
  if (samples === undefined) return null;
  const most = Math.max(least, ...samples.map((sample) => sample ?? 0));
  // From the right, where now is; a sample that is missing ends a line.
  let pen = "M";
  const line = samples.map((sample, at) => {
    const to = sample === null ? "" : `${pen}${SAMPLES - samples.length + at},${(15 - (14 * sample) / most).toFixed(1)}`;
    pen = sample === null ? "M" : "L";
    return to;
  });
  return (
    <svg class="trace" viewBox={`0 0 ${SAMPLES} 16`} preserveAspectRatio="none" aria-hidden="true">
      <path d={line.join("")} />
    </svg>
  );
}

/** `at`: any value that is new with each sample, because the curve is changed in place. */
export function Chart({ curve, label, height = HEIGHT }: { curve: Curve; label: string; at: number; height?: number }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<{ names: string; plot: uPlot }>(undefined);
  const names = [...curve.rates.keys()];
  const data = [curve.times, ...curve.rates.values()] as uPlot.AlignedData;
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const width = Math.max(200, element.clientWidth);
    const key = names.join("\n");
    if (plot.current?.names !== key) {
      plot.current?.plot.destroy();
      plot.current = { names: key, plot: new uPlot(options(names, width, height), data, element) };
    } else {
      if (plot.current.plot.width !== width) plot.current.plot.setSize({ width, height });
      plot.current.plot.setData(data);
    }
    // Without a pointer the legend has the newest values.
    if (plot.current.plot.cursor.idx == null) plot.current.plot.setLegend({ idx: curve.times.length - 1 });
  });
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const again = () => {
      plot.current?.plot.destroy();
      plot.current = undefined;
    };
    scheme.addEventListener("change", again);
    return () => {
      scheme.removeEventListener("change", again);
      again();
    };
  }, []);
  return <div class="chart" ref={box} role="img" aria-label={label} />;
}
