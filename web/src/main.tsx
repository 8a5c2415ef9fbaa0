// The dashboard: every running program of this user, each second.

import { render } from "preact";
import { useState } from "preact/hooks";
import { History } from "./history";
import { usePolling } from "./polling";
import { ProgramView } from "./programs";
import { Replay } from "./replay";
import { enclosed } from "./run";
import { type Program, ask, identity } from "./status";
import "./page.css";

const EVERY_MS = 1000;

function Logo() {
  return (
    <svg viewBox="0 0 32 32" aria-hidden="true">
      <path d="M2 6C12 6 12 16 30 16M2 16H30M2 26C12 26 12 16 30 16" />
    </svg>
  );
}

const history = new History();

function Page() {
  const [programs, setPrograms] = useState<Program[]>([]);
  const take = (answer: Program[]) => {
    history.add(answer);
    setPrograms(answer);
  };
  const { lost, at } = usePolling(ask, take, EVERY_MS);
  const [saved, setSaved] = useState<{ name: string; log: string }>();
  const open = async (file: File | undefined) => {
    if (file !== undefined) setSaved({ name: file.name, log: await file.text() });
  };
  return (
    <>
      <header>
        <h1>
          <Logo /> Tributary
        </h1>
        <label class="open">
          Open a saved run
          <input
            type="file"
            onChange={(event) => {
              void open(event.currentTarget.files?.[0]);
              // The same file may be opened again.
              event.currentTarget.value = "";
            }}
          />
        </label>
        <p class={lost === undefined ? "link live" : "link lost"} role="status">
          {lost === undefined ? "live" : `tributary status --web does not answer (${lost}); trying again`}
        </p>
      </header>
      {saved !== undefined && <Replay key={saved.log} {...saved} close={() => setSaved(undefined)} />}
      {at > 0 && programs.length === 0 && lost === undefined && (
        <p class="empty">
          No long-running <code>tributary</code> program of this user is running. This page shows the next one when it starts.
        </p>
      )}
      {programs.map((program) => (
        <ProgramView key={identity(program)} program={program} curve={history.curves.get(identity(program))} at={at} />
      ))}
      <section class="panel events" aria-label="events">
        <h2>Events</h2>
        <ol aria-live="polite" tabIndex={0}>
          {history.changes.map((change) => (
            <li key={`${change.at.getTime()} ${change.program} ${change.words}`}>
              <time>{change.at.toLocaleTimeString()}</time> {change.program}: {change.words}
            </li>
          ))}
        </ol>
        {history.changes.length === 0 && <p class="facts">None since this page was opened.</p>}
      </section>
    </>
  );
}

const page = document.getElementById("page");
if (page !== null) {
  const log = enclosed();
  page.replaceChildren();
  render(log === undefined ? <Page /> : <Replay log={log} name="A saved run" />, page);
}
