// A saved run with a time line: what state each radio was in, and what happened, up to a chosen time.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Run, at, enclose, parse } from "./run";
import { duration } from "./words";

/** Events that are listed. */
const LISTED = 100;
const SPEEDS = [1, 4, 16];

const SIGNS: Record<string, string> = { up: "●", silent: "◐", connecting: "…", closed: "■" };

function TimeLine({ run, seconds }: { run: Run; seconds: number }) {
  const part = (value: number) => `${(100 * value) / Math.max(run.seconds, 1e-3)}%`;
  return (
    <div class="lanes">
      {run.lanes.map((lane) => {
        const now = at(lane, seconds);
        return (
          <div key={`${lane.session} ${lane.radio}`} class="lane" data-radio={lane.radio} data-state={now.state}>
            <p>
              <b>{lane.radio}</b> <small>{lane.session}</small>{" "}
              <span class={`state ${now.state}`}>
                <span aria-hidden="true">{SIGNS[now.state] ?? "○"}</span> {now.state}
              </span>
              <small>{now.cause === undefined ? "" : ` ${now.cause}`}</small>
            </p>
            <div class="bar" aria-hidden="true">
              {lane.spans.map((span) => (
                <i
                  key={span.from}
                  class={span.state}
                  style={{ left: part(span.from), width: part(span.to - span.from) }}
                  title={`${span.from.toFixed(1)} s: ${span.state}${span.cause === undefined ? "" : `, ${span.cause}`}`}
                />
              ))}
              <u style={{ left: part(seconds) }} />
            </div>
          </div>
        );
      })}
    </div>
  );
}

export function Replay({ log, name, close }: { log: string; name: string; close?: () => void }) {
  const run = useMemo(() => {
    try {
      return parse(log);
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }, [log]);
  const [seconds, setSeconds] = useState(0);
  const [speed, setSpeed] = useState(0);
  const [problem, setProblem] = useState<string>();
  const frame = useRef(0);
  const most = typeof run === "string" ? 0 : run.seconds;
  useEffect(() => {
    if (speed === 0) return;
    let before = performance.now();
    const turn = (now: number) => {
      const passed = ((now - before) / 1000) * speed;
      before = now;
      setSeconds((old) => Math.min(most, old + passed));
      frame.current = requestAnimationFrame(turn);
    };
    frame.current = requestAnimationFrame(turn);
    return () => cancelAnimationFrame(frame.current);
  }, [speed, most]);
  const save = async () => {
    try {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await enclose(log));
      link.download = `${name.replace(/\.[^.]*$/, "")}.html`;
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (error) {
      setProblem(`cannot be saved: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  const leave = close && (
    <button type="button" onClick={close}>
      Close
    </button>
  );
  if (typeof run === "string") {
    return (
      <section class="panel replay" aria-label="saved run">
        <h2>{name}</h2>
        <p class="lost" role="alert">
          This file cannot be replayed: {run}
        </p>
        {leave}
      </section>
    );
  }
  const past = run.events.filter((event) => event.at <= seconds);
  const wall = run.began && new Date(run.began.getTime() + seconds * 1000).toLocaleTimeString();
  return (
    <section class="panel replay" aria-label="saved run">
      <h2>
        {name} <small>{duration(run.seconds)}, {run.events.length} events</small>
      </h2>
      <p class="controls">
        {speed === 0 ? (
          <button type="button" onClick={() => (setSeconds(seconds >= run.seconds ? 0 : seconds), setSpeed(SPEEDS[0]!))}>
            Play
          </button>
        ) : (
          <button type="button" onClick={() => setSpeed(0)}>
            Pause
          </button>
        )}
        {SPEEDS.map((each) => (
          <button key={each} type="button" aria-pressed={speed === each} onClick={() => setSpeed(each)}>
            {each}×
          </button>
        ))}
        {close && (
          <button type="button" onClick={() => void save()}>
            Save as one HTML file
          </button>
        )}
        {leave}
      </p>
      <label class="time">
        <span>
          {seconds.toFixed(1)} s of {run.seconds.toFixed(1)} s{wall && `, ${wall}`}
        </span>
        <input
          type="range"
          min={0}
          max={run.seconds}
          step="any"
          value={seconds}
          onInput={(event) => setSeconds(Number(event.currentTarget.value))}
          aria-label="time in the run"
        />
      </label>
      {problem !== undefined && (
        <p class="lost" role="alert">
          {problem}
        </p>
      )}
      <TimeLine run={run} seconds={seconds} />
      <h2>
        Events <small>up to here, the newest first</small>
      </h2>
      <ol class="past" tabIndex={0}>
        {past.slice(-LISTED).reverse().map((event, index) => (
          <li key={past.length - index}>
            <time>{event.at.toFixed(2)} s</time> {event.radio ?? event.session}: {event.words}
          </li>
        ))}
      </ol>
      {past.length === 0 && <p class="facts">None yet.</p>}
      {run.unknown > 0 && <p class="facts">{run.unknown} lines are no events and were left out.</p>}
    </section>
  );
}
