import { useState } from "preact/hooks";
import { ApiError } from "../../api/client";
import type { RunDetail, Node as RunNode } from "../../api/types";
import { useKeys } from "../../app/keys";
import { usePrefs } from "../../app/prefs";
import { href, Link, runPath, setQuery, useQuery } from "../../app/router";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { plural } from "../../lib/text";
import { span } from "../../lib/time";
import { Empty, Fault, Loading, Meter, Tags } from "../../ui/basic";
import type { Drawn } from "../../graph/drawn";
import { Graph } from "../../graph/graph";
import { Icon } from "../../ui/icon";
import { ended, stateOfRun, StateLabel, states, stateOfNode, type State } from "../../ui/state";
import { Time, Took } from "../../ui/time";
import { Confirm } from "../../ui/dialog";
import { Remedy } from "../../ui/remedy";
import { remedy, sentence } from "../../ui/why";
import { rerunAct, resumeAct, RunActions } from "./actions";
import { askKey } from "../../lib/ask";
import { Compare } from "./compare";
import { foldBeyond, useRun, type RunData } from "./data";
import { Events, Scrubber } from "./events";
import { Fork } from "./fork";
import { downstream } from "./history";
import { Logs } from "./logs";
import { Panel } from "./panel";
import { NodeTable, partsOf } from "./nodes";
import { Timeline } from "./timeline";
import { useSpent, useTags, Values } from "./values";
import { useView, type View } from "./view";

const tabs = [
  ["graph", "Graph"], ["timeline", "Timeline"], ["table", "Table"], ["events", "Events"], ["logs", "Logs and streams"],
  ["data", "Input and result"], ["compare", "Compare"],
] as const;

// RunPage shows one run: as a graph, in time, as a table, by its events, logs and values.
export function RunPage({ flow, run: id }: { flow: string; run: string }) {
  const query = useQuery();
  const small = matchMedia("(max-width: 640px)").matches;
  const tab = query.get("tab") ?? (small ? "table" : "graph");
  const selected = query.get("node") ?? undefined;
  const data = useRun(flow, id, query.get("fold") === "off", selected ? 372 : 0);
  const [rerunFrom, setRerunFrom] = useState<string>();
  const [resume, setResume] = useState(false);
  const [rerun, setRerun] = useState(false);
  const [fork, setFork] = useState<{ from: string | undefined; marked?: Set<number> }>();
  const openFold = (first: string) => setQuery({ tab: "table", group: first }, true);
  const select = (node: string | undefined) => setQuery({ node, attempt: undefined, item: undefined }, true);
  useKeys("Run", [
    ...tabs.map(([key, name], i) => ({ keys: String(i + 1), does: name, run: () => setQuery({ tab: key }) })),
    { keys: "Escape", does: "close the panel", run: () => selected && select(undefined) },
    { keys: ".", does: "actions", run: () => document.getElementById("actions")?.click() },
  ]);
  const run = data.run.data;
  const tags = useTags(run);
  const seen = useSpent(run);
  if (!run) return <NotThere flow={flow} id={id} error={data.run.error} retry={data.reload} />;
  const view = useView(data, query.get("at"));
  const marked = fork ? fork.marked : rerunFrom !== undefined && data.layout.data
    ? rerunFrom === "" ? failedOf(data) : downstream(data.layout.data.edges, data.places.get(rerunFrom) ?? -1) : undefined;
  return (
    <>
      <Top crumbs={<><Link to={href(["runs"])}>Runs</Link> / <Link to={href(["runs"], { flow })}>{flow}</Link> / <b class="mono ell">{id}</b></>} />
      <Head run={run} tags={tags} data={data} onRerun={setRerunFrom} onFork={() => setFork({ from: undefined })} />
      <Why run={run} onSelect={select} onResume={() => setResume(true)} onRerun={() => (setRerun(true), setRerunFrom(""))} />
      {resume && <Confirm act={resumeAct(runPath(flow, id))} onClose={() => setResume(false)} />}
      {rerun && <Confirm act={rerunAct(runPath(flow, id), data, "failed")} onClose={() => (setRerun(false), setRerunFrom(undefined))} />}
      <Tabs tab={tab} run={run} data={data} />
      {query.get("at") && <AsOf at={query.get("at")!} />}
      <div class={`split${selected ? " open" : ""}`}>
        <div class="work">
          {tab === "graph" && <GraphTab data={data} view={view} selected={selected} onSelect={select} onFold={openFold} marked={marked} />}
          {tab === "timeline" && <div class="scroll pad"><Timeline data={data} view={view} selected={selected} onSelect={select} onFold={openFold} /></div>}
          {tab === "table" && <NodeTable data={data} view={view} selected={selected} onSelect={select} />}
          {tab === "events" && <Events data={data} query={query} onSelect={select} />}
          {tab === "logs" && <Logs data={data} flow={flow} run={id} node={selected} onSelect={select} />}
          {tab === "data" && <Values run={run} tags={tags} seen={seen} />}
          {tab === "compare" && <Compare detail={run} data={data} other={query.get("with") ?? ""} />}
        </div>
        {selected && <Panel key={selected} data={data} node={selected} onClose={() => select(undefined)} onRerun={setRerunFrom} onFork={() => setFork({ from: selected })} />}
      </div>
      {fork && <Fork run={run} data={data} from={fork.from} onMark={(nodes) => setFork({ ...fork, marked: nodes })} onClose={() => setFork(undefined)} />}
    </>
  );
}

function failedOf(data: RunData): Set<number> {
  const out = new Set<number>();
  data.layout.data?.nodes.forEach((_, i) => {
    if (["failed", "cancelled", "expired", "skipped"].includes(data.stateAt(i).key)) out.add(i);
  });
  return out;
}

function NotThere({ flow, id, error, retry }: { flow: string; id: string; error: Error | undefined; retry(): void }) {
  const missing = error instanceof ApiError && error.status === 404;
  return (
    <>
      <Top crumbs={<><Link to={href(["runs"])}>Runs</Link> / <h1 class="mono">{id}</h1></>} />
      {!error && <Loading />}
      {error && !missing && <Fault error={error} retry={retry} />}
      {missing && (
        <Empty title={`There is no run ${id} of ${flow}. It may have been purged.`}>
          <Link class="btn" to={href(["runs"], { flow })}>Show the runs of {flow}</Link>
        </Empty>
      )}
    </>
  );
}

interface HeadProps { run: RunDetail; tags: Record<string, string> | undefined; data: RunData; onRerun(node: string | undefined): void; onFork(): void }

function Head({ run, tags, data, onRerun, onFork }: HeadProps) {
  const session = useSession();
  const over = ended(run.state);
  const worst = over ? undefined : worstOf(run.nodes);
  const state = over ? stateOfRun(run) : run.paused_at ? states.paused
    : worst ? stateOfNode(worst) : states.running;
  const all = data.layout.data?.nodes.length ?? run.nodes.length;
  const copy = () => navigator.clipboard?.writeText(run.run).then(() => session.say("Copied"));
  return (
    <div class="runhead">
      <h1 class="mono ell" title={run.run}>
        <button type="button" class="bare" onClick={copy} title="Copy the id">{run.run}</button>
      </h1>
      <StateLabel state={state} pill />
      <Link class="soft desk" to={href(["flows", run.flow])}>{run.flow}</Link>
      {data.layout.data?.hash && <Link class="tag desk" data-hash={data.layout.data.hash} title={`Version of the flow: graph ${data.layout.data.hash}`}
        to={href(["flows", run.flow], { version: data.layout.data.hash.slice(0, 10) })}>{data.layout.data.hash.slice(0, 10)}</Link>}
      {run.parent && <span class="tag desk">child run</span>}
      {run.forked_from && (
        <Link class="tag desk" to={href(runPath(run.flow, run.run), { tab: "compare", with: run.forked_from })}
          title={`${run.kept_nodes ?? 0} results are those of ${run.forked_from}`}>fork of {run.forked_from}</Link>
      )}
      {run.schedule && <Link class="tag desk" to={href(["schedules", run.schedule])}>schedule {run.schedule}</Link>}
      <span class="row wide-only ell"><Tags tags={tags} short /></span>
      <span class="grow" />
      <span class="soft nw desk">
        Started <Time at={run.starts_at ?? run.created_at} />{run.reruns ? <>, run again <Time at={run.last_rerun?.at} /></> : null} · {over ? "took" : "open for"}{" "}
        <b><Took from={run.began_at} to={over ? run.closed_at : undefined} /></b> ·{" "}
        <b>{all - run.open_nodes}</b> of {plural(all, "node")} ended
      </span>
      {session.may("operate") && (
        <Link class="btn desk" to={href(["flows", run.flow, "start"], { like: run.run })}>Start like this</Link>
      )}
      <RunActions run={run} data={data} onRerun={onRerun} onFork={onFork} />
    </div>
  );
}

const order = ["late", "person", "signal", "unserved", "blocked", "paused", "retry", "delayed", "queued"];

// worstOf returns the node that needs attention most, of those that wait.
function worstOf(nodes: RunNode[]): RunNode | undefined {
  let best: RunNode | undefined;
  let at = order.length;
  for (const n of nodes) {
    const place = order.indexOf(stateOfNode(n).key);
    if (place >= 0 && place < at) (best = n), (at = place);
  }
  return best;
}

const leads: Record<string, string> = {
  late: "An answer is late.", person: "A person has to answer.", signal: "A signal has to come.",
  unserved: "No worker takes it.", blocked: "Something holds it back.", paused: "It is paused.",
  retry: "An attempt failed.", delayed: "It waits for a time.",
};

// Why says in one sentence why the run does not go on, and offers the one thing to do.
function Why({ run, onSelect, onResume, onRerun }: { run: RunDetail; onSelect(node: string): void; onResume(): void; onRerun(): void }) {
  const session = useSession();
  const { zone } = usePrefs();
  if (ended(run.state)) {
    if (run.state === "succeeded") return null;
    return <Ended run={run} onSelect={onSelect} onRerun={onRerun} />;
  }
  const node = worstOf(run.nodes);
  const state = node && stateOfNode(node);
  if (!node || !state || !leads[state.key] || state.key === "delayed") return null;
  const others = run.nodes.filter((n) => n !== node && order.slice(0, 7).includes(stateOfNode(n).key)).length;
  const asks = node.waits?.[0];
  const open = run.nodes.filter((n) => n.state === "active").length;
  return (
    <section class={`why w-${state.hue}`} aria-label="Why it waits">
      <span class={`c-${state.hue}`}><Icon name={state.icon} /></span>
      <p class="grow">
        <b>{leads[state.key]}</b> <button type="button" class="bare mono strong" onClick={() => onSelect(node.node)}>{node.node}</button>{" "}
        {node.waiting && sentence(node.waiting, zone, asks)}.
        {node.waiting && remedy(node.waiting) && <span class="soft"> {remedy(node.waiting)}.</span>}
        {others > 0 && <span class="soft"> And {others} more.</span>}
        {open > 0 && <span class="soft"> {plural(open, "other node")} {open === 1 ? "goes" : "go"} on meanwhile.</span>}
      </p>
      {asks && session.may("approve") && (
        <Link class="btn primary" to={href(["inbox"], { ask: askKey(asks) })}>Answer</Link>
      )}
      {node.waiting && <Remedy why={node.waiting} />}
      {node.waiting?.reason === "run_paused" && session.may("operate") && (
        <button type="button" class="btn" onClick={onResume}>Resume…</button>
      )}
    </section>
  );
}

function Ended({ run, onSelect, onRerun }: { run: RunDetail; onSelect(node: string): void; onRerun(): void }) {
  const session = useSession();
  const state = stateOfRun(run);
  const text = run.reason ?? run.cancel_reason;
  return (
    <section class={`why w-${state.hue}`} aria-label="How it ended">
      <span class={`c-${state.hue}`}><Icon name={state.icon} /></span>
      <p class="grow">
        <b>{state.word}{run.cancelled_by ? ` by ${run.cancelled_by}` : ""}.</b>{" "}
        {run.failed_node && (
          <button type="button" class="bare mono strong" onClick={() => onSelect(run.failed_node!)}>{run.failed_node}</button>
        )}{" "}
        {text && <span class="lines">{text.split("\n", 1)[0]}</span>}
        {run.category && run.category !== "error" && <span class="soft"> ({run.category})</span>}
      </p>
      {session.may("operate") && <button type="button" class="btn primary" onClick={onRerun}>Rerun failed…</button>}
    </section>
  );
}

function Tabs({ tab, run, data }: { tab: string; run: RunDetail; data: RunData }) {
  const counts: Record<string, number> = { table: data.layout.data?.nodes.length ?? run.nodes.length, events: data.events.length };
  const budget = run.budgets?.[0];
  const amount = budget?.amounts.find((a) => a.hard);
  return (
    <div class="tabs">
      <div class="tablist" role="tablist" aria-label="Views of the run">
      {tabs.map(([key, name]) => (
        <button key={key} type="button" role="tab" aria-selected={key === tab} class={key === tab ? "on" : ""}
          onClick={() => setQuery({ tab: key })}>
          {name}{counts[key] ? <span class="n">{counts[key]}</span> : null}
        </button>
      ))}
      </div>
      <span class="grow" />
      {amount && (
        <button type="button" class="s soft nw desk" onClick={() => setQuery({ tab: "data" })}>
          budget <code>{budget!.name}</code>{" "}
          <Meter part={amount.spent} whole={amount.hard!} label={`${amount.spent} of ${amount.hard} ${amount.dimension}`} />{" "}
          {Math.round((amount.spent / amount.hard!) * 100)} %
        </button>
      )}
    </div>
  );
}

const AsOf = ({ at }: { at: string }) => (
  <p class="note" role="status">
    As of <Time at={at} />. <button type="button" class="link" onClick={() => setQuery({ at: undefined })}>Back to now</button>
  </p>
);

interface GraphTabProps {
  data: RunData; view: View; selected: string | undefined; onSelect(n: string): void;
  onFold(first: string): void; marked: Set<number> | undefined;
}

function GraphTab({ data, view, selected, onSelect, onFold, marked }: GraphTabProps) {
  const layout = data.layout.data;
  const [strip, setStrip] = useState(true);
  const unfolded = useQuery().get("fold") === "off";
  if (data.layout.error) return <Fault error={data.layout.error} retry={data.layout.reload} />;
  if (!layout) return <Loading />;
  if (layout.nodes.length === 0) {
    return <Empty title="This run stores no graph."><p>Its nodes are in the table.</p></Empty>;
  }
  return (
    <>
      <Graph layout={layout} drawn={(i) => drawnOf(data, view, i)} selected={selected} onSelect={onSelect} onFold={onFold}
        critical={view.critical} marked={marked} focus={focusOf(data, selected)} ofRun label="Graph of the run" />
      {layout.nodes.length > foldBeyond && (layout.folds || unfolded) && (
        <p class="folds s soft row wrap">
          {layout.folds ? <>{plural(layout.nodes.length, "node")}: those that are alike are drawn as one. Open one to list its nodes.</> : plural(layout.nodes.length, "node")}
          <button type="button" class="link" onClick={() => setQuery({ fold: layout.folds ? "off" : undefined })}>{layout.folds ? "Draw every node" : "Draw alike nodes as one"}</button>
        </p>
      )}
        <section class="strip desk" aria-label="Timeline">
          <header>
            <h2>Timeline</h2>
            <Legend />
            <span class="grow" />
            <button type="button" class="link s" onClick={() => setQuery({ tab: "timeline" })}>Open timeline</button>
            <button type="button" class="link s" aria-expanded={strip} onClick={() => setStrip(!strip)}>{strip ? "Hide" : "Show"}</button>
          </header>
          {strip && <div class="scroll striped"><Timeline data={data} view={view} selected={selected} onSelect={onSelect} onFold={onFold} /></div>}
        </section>
      <Scrubber data={data} />
    </>
  );
}

// focusOf returns the node that the graph shows first if it has no room for all: the selected one, the one that failed, or
// the one that needs attention most.
function focusOf(data: RunData, selected: string | undefined): number | undefined {
  const run = data.run.data!;
  const name = selected ?? run.failed_node ?? (ended(run.state) ? undefined : worstOf(run.nodes)?.node);
  return name === undefined ? undefined : data.places.get(name);
}

export const Legend = () => (
  <span class="row s muted" aria-hidden="true">
    {[["queued", "queued"], ["running", "running"], ["succeeded", "succeeded"], ["failed", "failed attempt"],
      ["delay", "delay"], ["held", "held back"], ["person", "waiting for person"]].map(([key, text]) => (
      <span key={key} class="nw"><i class={`sw p-${key}`} /> {text}</span>
    ))}
  </span>
);

function drawnOf(data: RunData, view: View, i: number): Drawn {
  const placed = data.layout.data!.nodes[i]!;
  const state = view.state(i);
  const n = view.past ? undefined : data.nodes.get(placed.node);
  const h = view.history.get(placed.node);
  const attempts = n?.attempts ?? h?.attempts ?? 0;
  const out: Drawn = { state, status: statusOf(state, n, h), attempts };
  if (n?.child && n.child.total > 0) {
    const c = n.child;
    out.share = { done: c.succeeded / c.total, failed: ((c.failed ?? 0) + (c.expired ?? 0)) / c.total };
  }
  return out;
}

// statusOf is the second line of a node.
function statusOf(state: State, n: RunNode | undefined, h: ReturnType<View["history"]["get"]>): string {
  if (n?.child && n.child.total > 0) return partsOf(n, n.child);
  switch (state.key) {
    case "succeeded":
    case "failed": {
      const from = h?.segments[0]?.from;
      const took = from && h?.ended ? span(h.ended - from) : "";
      return state.key === "failed" && n?.category ? n.category : took;
    }
    case "person":
    case "late":
    case "signal":
      return n?.waiting?.need ? `${n.waiting.have ?? 0} of ${n.waiting.need} answers` : "";
    case "running":
      return n?.message || (n?.percent ? `${Math.round(n.percent)} %` : "");
    case "retry":
      return n?.waiting?.need ? `attempt ${n.waiting.have} of ${n.waiting.need}` : "";
    case "blocked":
      return n?.waiting?.subject ? `${n.waiting.reason} ${n.waiting.subject}` : "";
    case "queued":
      return n?.lane ? `lane ${n.lane}` : "";
    default:
      return "";
  }
}
