import { useEffect, useState } from "preact/hooks";
import { post, put } from "../../api/client";
import type { BulkAction, BulkPreview, Run } from "../../api/types";
import { go, href, runPath } from "../../app/router";
import { useSession } from "../../app/session";
import { exact, join, plural } from "../../lib/text";
import { Fault } from "../../ui/basic";
import { Confirm, Made, type Act } from "../../ui/dialog";
import { isFiltered, queryText, type Filters } from "./filters";

interface Kind { name: string; verb: string; done: string; danger?: boolean; reason?: boolean; action: BulkAction; one(r: Run, reason: string): Promise<unknown> }

const kinds: Kind[] = [
  {
    name: "Rerun failed…", verb: "Rerun failed", done: "Rerun", action: { kind: "rerun", scope: "failed" },
    one: (r) => post([...runPath(r.flow, r.run), "rerun"], { scope: "failed" }),
  },
  {
    name: "Pause…", verb: "Pause runs", done: "Paused", reason: true, action: { kind: "pause" },
    one: (r, reason) => post([...runPath(r.flow, r.run), "pause"], { reason }),
  },
  {
    name: "Resume…", verb: "Resume runs", done: "Resumed", action: { kind: "resume" },
    one: (r) => post([...runPath(r.flow, r.run), "resume"]),
  },
  {
    name: "Raise priority…", verb: "Raise priority", done: "Raised", action: { kind: "priority", priority: 500 },
    one: (r) => put([...runPath(r.flow, r.run), "priority"], { priority: 500 }),
  },
  {
    name: "Cancel…", verb: "Cancel runs", done: "Cancelled", danger: true, reason: true, action: { kind: "cancel" },
    one: (r, reason) => post([...runPath(r.flow, r.run), "cancel"], { reason }),
  },
];

interface BarProps { runs: Run[]; all: boolean; total: number; filters: Filters; onAll(): void; onClear(): void }

// BulkBar is docked below the list while runs are selected.
export function BulkBar({ runs, all, total, filters, onAll, onClear }: BarProps) {
  const session = useSession();
  const [kind, setKind] = useState<Kind>();
  return (
    <div class="bulk" role="region" aria-label="Selection">
      <b>{all ? `All ${exact(total)}` : exact(runs.length)} selected</b>
      {!all && session.may("operate") && total > runs.length && (
        <button type="button" class="link" onClick={onAll}>Select all {exact(total)} that match</button>
      )}
      {kinds.map((k) => (
        <button key={k.name} type="button" class={`btn sm${k.danger ? " danger" : ""}`} onClick={() => setKind(k)}>
          {k.name}
        </button>
      ))}
      <span class="grow" />
      <button type="button" class="btn quiet sm" onClick={onClear}>Clear <kbd class="kbd">Esc</kbd></button>
      {kind && !all && runs.length === 1 && <Confirm act={actOf(kind, runs[0]!)} onClose={() => (setKind(undefined), onClear())} />}
      {kind && (all || runs.length > 1) && (
        <BulkDialog kind={kind} query={all ? queryText(filters) : namesOf(runs)} every={all && !isFiltered(filters)}
          onClose={() => setKind(undefined)} />
      )}
    </div>
  );
}

// actOf acts on one run; more than one are a job.
function actOf(kind: Kind, r: Run): Act {
  return {
    title: `${kind.verb}: 1 run`, verb: kind.verb, danger: !!kind.danger, reason: !!kind.reason,
    done: `${kind.done}:`, link: { to: href(runPath(r.flow, r.run)), text: r.run }, what: <>{r.run}</>, run: (reason) => kind.one(r, reason),
  };
}

// namesOf returns a query of the selected runs.
const namesOf = (runs: Run[]) => new URLSearchParams(runs.map((r) => ["run", `${r.flow}/${r.run}`])).toString();

interface BulkProps { kind: Kind; query: string; every: boolean; onClose(): void }

// BulkDialog previews a job on the runs of a query, starts it, and goes to its progress.
function BulkDialog({ kind, query, every, onClose }: BulkProps) {
  const [preview, setPreview] = useState<BulkPreview>();
  const [error, setError] = useState<Error>();
  const [body] = useState({ query, every_run: every, action: kind.action });
  useEffect(() => {
    post(["bulk", "preview"], body).then(setPreview, setError);
  }, []);
  if (error) {
    return (
      <Confirm onClose={onClose} act={{
        title: kind.verb, verb: "Close", what: <Fault error={error} />, done: "", run: async () => undefined,
      }} />
    );
  }
  const act: Act = {
    title: preview ? `${kind.verb}: ${plural(preview.runs, "run")}` : kind.verb, verb: kind.verb, danger: !!kind.danger, reason: !!kind.reason,
    done: "The bulk job has started",
    what: preview ? <Preview preview={preview} /> : <p role="status">Counting the runs…</p>,
    run: async (reason) => {
      const job = await post(["bulk"], { ...body, action: { ...kind.action, ...(reason && { reason }) } });
      go(href(["bulk", job.id]));
      return new Made({ to: href(["bulk", job.id]), text: "Show it" });
    },
  };
  return <Confirm act={act} onClose={onClose} />;
}

function Preview({ preview }: { preview: BulkPreview }) {
  const states = Object.entries(preview.states).map(([state, n]) => `${exact(n)} ${state}`);
  return (
    <div class="gap" data-preview>
      <p>
        <b>{preview.more ? "More than " : ""}{plural(preview.runs, "run")}</b>{states.length ? `: ${join(states)}` : ""}.
        {" "}Runs to which it does not apply stay as they are. The job can be stopped, what it did stays.
      </p>
      <ul class="plain s mono">
        {preview.sample.slice(0, 10).map((r) => <li key={r.flow + r.run}>{r.run} <span class="muted">{r.flow}, {r.state}</span></li>)}
      </ul>
    </div>
  );
}
