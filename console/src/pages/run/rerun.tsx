import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { get } from "../../api/client";
import type { Attempt, Node as RunNode, Page, ReceivedSignal, RunDetail, Event as RunEvent, Wait } from "../../api/types";
import { useLoad } from "../../app/load";
import { href, Link, runPath } from "../../app/router";
import { useSession } from "../../app/session";
import { plural, words } from "../../lib/text";
import { span } from "../../lib/time";
import { Card, Empty, Fault, Hidden, JsonText, Loading, ValueView } from "../../ui/basic";
import { Icon } from "../../ui/icon";
import { nodeState, StateLabel } from "../../ui/state";
import { Time, Took } from "../../ui/time";
import type { RunData } from "./data";

// Rerun is a rerun as the events have it, with the nodes that were reset: how often each had been by then.
interface Rerun { id: string; at: string; mode: string; nodes: Map<string, number> }

function rerunsOf(events: readonly RunEvent[]): Rerun[] {
  const out: Rerun[] = [];
  const counts = new Map<string, number>();
  for (const e of events) {
    if (e.kind === "flow_rerun") out.push({ id: e.id, at: e.at, mode: e.detail ?? "", nodes: new Map() });
    if (e.kind !== "replayed" || !e.node) continue;
    counts.set(e.node, (counts.get(e.node) ?? 0) + 1);
    out.at(-1)?.nodes.set(e.node, counts.get(e.node)!);
  }
  return out;
}

interface Row { n: RunNode; replay: number; before: Attempt | undefined; after: Attempt | undefined }

// BeforeAndAfter compares the nodes that ran again in a rerun with what they did before. The engine keeps the attempts of
// former times with their errors, what they logged and emitted, and the answers to former waits. It does not keep former
// results.
export function BeforeAndAfter({ run, data }: { run: RunDetail; data: RunData }) {
  const loaded = useLoad<RunDetail>(
    (s) => get(runPath(run.flow, run.run), { attempts: true }, s), [run.flow, run.run, run.reruns ?? 0, run.closed_at ?? ""]);
  const [chosen, setChosen] = useState("");
  const [open, setOpen] = useState<string>();
  if (loaded.error && !loaded.data) return <Fault error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data) return <Loading />;
  const reruns = rerunsOf(data.events);
  const one = reruns.find((r) => r.id === chosen) ?? reruns.at(-1);
  const newest = one === reruns.at(-1);
  const rows: Row[] = loaded.data.nodes.filter((n) => one ? one.nodes.has(n.node) : n.replays).map((n) => {
    const replay = one?.nodes.get(n.node) ?? n.replays!;
    return { n, replay, before: last(n, replay - 1), after: last(n, replay) };
  });
  const better = rows.filter(({ before, after }) => before?.outcome !== "success" && after?.outcome === "success").length;
  const worse = rows.filter(({ before, after }) => before?.outcome === "success" && after?.outcome && after.outcome !== "success").length;
  const r = run.last_rerun;
  return (
    <Card title={newest ? "Before and after the last rerun" : "Before and after a rerun"}
      note={newest ? r && <>{words(r.scope)}, <Time at={r.at} />{r.by ? ` by ${r.by}` : ""}</> : one && <>{words(one.mode)}, <Time at={one.at} /></>}
      side={reruns.length > 1 && (
        <label class="chip"><span class="sr">Rerun</span>
          <select name="rerun" value={one?.id} onChange={(e) => (setChosen(e.currentTarget.value), setOpen(undefined))}>
            {reruns.map((x, i) => <option key={x.id} value={x.id}>{`Rerun ${i + 1} of ${reruns.length}`}</option>)}
          </select></label>
      )}>
      <p class="s pad soft" data-rerun-nodes={rows.length}>
        {plural(rows.length, "node")} ran again: {better} {better === 1 ? "succeeds" : "succeed"} now that did not, {worse} the other way round.
        {" "}Open a node for its former attempts, answers and logs. Of results, the engine keeps the last ones only.
      </p>
      {rows.length === 0 ? <Empty title="No node has run again yet." /> : (
        <table>
          <thead><tr><th class="w-run">Node</th><th>Before</th><th>After</th><th class="num w-took">Difference</th></tr></thead>
          <tbody>
            {rows.map((row) => {
              const { n, before, after } = row;
              const on = open === n.node;
              return (
                <Fragment key={n.node}>
                  <tr data-node={n.node} onClick={() => setOpen(on ? undefined : n.node)}>
                    <td><button type="button" class="bare mono strong" aria-expanded={on} data-former={n.node}><Icon name={on ? "up" : "down"} size={12} /> {n.node}</button></td>
                    <td><Side a={before} /></td>
                    <td>{after ? <Side a={after} /> : <StateLabel state={nodeState(n.state, n.waiting?.reason)} />}</td>
                    <td class="num">{difference(before, after)}</td>
                  </tr>
                  {on && <tr class="detail"><td colSpan={4}><Former run={run} row={row} at={one?.at ?? r?.at ?? ""} /></td></tr>}
                </Fragment>
              );
            })}
          </tbody>
        </table>
      )}
    </Card>
  );
}

// last returns the last attempt of a node before its rerun of a number, or after it.
const last = (n: RunNode, replay: number): Attempt | undefined => attemptsOf(n, replay).at(-1);

const attemptsOf = (n: RunNode, replay: number) => (n.history ?? []).filter((a) => (a.replay ?? 0) === replay);

const took = (a: Attempt | undefined) => a?.begun && a.ended ? Date.parse(a.ended) - Date.parse(a.begun) : undefined;

const outcomes: Record<string, string> = { success: "completed", retry: "failed", lost: "failed", panicked: "failed" };

const stateOf = (a: Attempt) => a.outcome ? nodeState(outcomes[a.outcome] ?? a.outcome) : nodeState("active");

function Side({ a }: { a: Attempt | undefined }) {
  if (!a) return <span class="muted">did not run</span>;
  const ms = took(a);
  return (
    <span class="row" title={a.error}>
      <StateLabel state={stateOf(a)} />
      <span class="s muted ell">attempt {a.number}{ms === undefined ? "" : `, ${span(ms)}`}{a.error ? `: ${a.error.split("\n")[0]}` : ""}</span>
    </span>
  );
}

function difference(before: Attempt | undefined, after: Attempt | undefined): string {
  const a = took(before), b = took(after);
  if (a === undefined || b === undefined) return "–";
  return b === a ? "the same" : b > a ? `+${span(b - a)}` : `−${span(a - b)}`;
}

// Former shows what is kept of a node from before a rerun, beside what it did after it.
function Former({ run, row, at }: { run: RunDetail; row: Row; at: string }) {
  const session = useSession();
  const { n, replay } = row;
  const path = runPath(run.flow, run.run);
  const read = useLoad<{ waits: Wait[]; now: RunNode } | null>(async (s) => {
    if (!session.reads) return null;
    const [waits, now] = await Promise.all([
      get([...path, "waits"], { closed: true }, s), get([...path, "nodes", n.node], { values: true }, s),
    ]);
    return { waits: waits.items.filter((w) => w.run === run.run && w.node === n.node), now };
  }, [run.flow, run.run, n.node, n.state, replay]);
  const former = (w: Wait) => Date.parse(w.opened_at ?? "") < Date.parse(at);
  const waits = read.data?.waits ?? [];
  const present = replay === (n.replays ?? replay);
  return (
    <div class="columns" data-former-of={n.node}>
      <section class="gap">
        <h3>Before</h3>
        <Tries run={run} node={n.node} list={attemptsOf(n, replay - 1)} />
        {waits.filter(former).map((w) => <Received key={w.id} wait={w} />)}
        <p class="s soft" data-not-kept>
          {n.kind === "waitpoint" ? "Its result was made of the answers above." : row.before?.outcome === "success"
            ? "It returned a result then, which is not kept: the rerun has replaced it." : "It ended without a result then."}
        </p>
      </section>
      <section class="gap">
        <h3>After</h3>
        <Tries run={run} node={n.node} list={attemptsOf(n, replay)} />
        {waits.filter((w) => !former(w)).map((w) => <Received key={w.id} wait={w} />)}
        {read.error && <Fault error={read.error} retry={read.reload} />}
        {!session.reads ? <Hidden /> : present && read.data && <><h3>Result</h3><ValueView value={read.data.now.result} label={`Result of ${n.node}`} /></>}
      </section>
    </div>
  );
}

// Tries lists attempts with their errors, and leads to what they logged.
const Tries = ({ run, node, list }: { run: RunDetail; node: string; list: Attempt[] }) => (
  <>
    {list.length === 0 && <p class="s muted">No attempt</p>}
    {list.map((a) => (
      <div key={a.number} class="gap" data-attempt={a.number}>
        <p class="row s"><b>#{a.number}</b><StateLabel state={stateOf(a)} /><Time at={a.begun} /><Took from={a.begun} to={a.ended} />
          <span class="grow" /><Link class="link" to={href(runPath(run.flow, run.run), { tab: "logs", node, attempt: String(a.number) })}>Logs and stream</Link></p>
        {a.worker && <p class="s muted mono ell" title={a.worker}>{a.worker}</p>}
        {a.error && <pre class="json" tabIndex={0} role="region" aria-label={`Error of attempt ${a.number}`}>{a.error}</pre>}
      </div>
    ))}
  </>
);

// Received lists the answers that a wait has got, with what they say.
function Received({ wait }: { wait: Wait }) {
  const loaded = useLoad<Page<ReceivedSignal>>(
    (s) => get([...runPath(wait.flow, wait.run), "waits", wait.id, "signals"], {}, s), [wait.id, wait.received, wait.state]);
  return (
    <div class="gap" data-wait={wait.state}>
      <p class="s soft">{wait.step ? <>Waited at <code>{wait.step}</code></> : "Waited"} since <Time at={wait.opened_at} />: {plural(loaded.data?.items.length ?? 0, "answer")}</p>
      {loaded.data?.items.map((x) => (
        <div key={x.id} class="gap">
          <p class="s"><code>{x.name}</code> by {x.source || "unknown"} at <Time at={x.at} />{x.counts ? "" : ", does not count"}</p>
          {x.json && <JsonText raw={x.json} label={`Answer of ${x.source || "unknown"}`} />}
        </div>
      ))}
    </div>
  );
}
