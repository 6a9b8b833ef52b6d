import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { ApiError, get, remove } from "../../api/client";
import type {
  Flow, FlowDetail, FlowStatistics, Layout, NodeStatistics, Page, PlacedNode, Run, RunCount, Schedule,
} from "../../api/types";
import { useFeed } from "../../app/live";
import { useLoad } from "../../app/load";
import { go, href, Link, runPath } from "../../app/router";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { count, plural } from "../../lib/text";
import { goDuration, span } from "../../lib/time";
import { Card, Empty, Fault, JsonText, Loading } from "../../ui/basic";
import { Confirm } from "../../ui/dialog";
import type { Drawn } from "../../graph/drawn";
import { Graph } from "../../graph/graph";
import { foldBeyond, wrapAt } from "../run/data";
import { Icon } from "../../ui/icon";
import { StateLabel, stateOfRun, states } from "../../ui/state";
import { Time } from "../../ui/time";
import { searchAt } from "../runs/filters";

export const FlowsPage = ({ name }: { name: string | undefined }) => name ? <FlowPage key={name} name={name} /> : <FlowList />;

// Tally has the open runs of a flow and its ends by state. A run that was run again has ended more than once.
interface Tally { open: number; ok: number; bad: number; ends: Map<string, number> }

function useTallies(): Map<string, Tally> {
  const from = new Date((Math.floor(Date.now() / 3_600_000) - 24) * 3_600_000).toISOString();
  const counts = useLoad<RunCount[]>(async (s) => {
    const open = await get(["counts"], { by: ["flow", "state"], state: ["running"] }, s);
    const ends = await get(["counts"], { by: ["flow", "state"], finished_from: from }, s);
    return [...open.items, ...ends.items];
  }, []);
  useFeed(() => counts.reload());
  const out = new Map<string, Tally>();
  for (const c of counts.data ?? []) {
    const t = out.get(c.flow!) ?? { open: 0, ok: 0, bad: 0, ends: new Map() };
    const ends = c.ends ?? 0;
    if (ends) t.ends.set(c.state!, (t.ends.get(c.state!) ?? 0) + ends);
    t.open += c.runs ?? 0;
    if (c.state === "succeeded") t.ok += ends;
    else t.bad += ends;
    out.set(c.flow!, t);
  }
  return out;
}

const rate = (t: Tally | undefined) => t && t.ok + t.bad ? `${Math.round((t.ok / (t.ok + t.bad)) * 100)} %` : "–";

function FlowList() {
  const session = useSession();
  const flows = useLoad<Page<Flow>>((s) => get(["flows"], {}, s), []);
  const tallies = useTallies();
  return (
    <>
      <Top crumbs={<h1>Flows</h1>} />
      <div class="page scroll">
        {flows.error && <Fault error={flows.error} retry={flows.reload} />}
        {!flows.data && !flows.error && <Loading />}
        {flows.data?.items.length === 0 && (
          <Empty title="No flow is published yet."><p>A program publishes its flows with <code>client.Publish</code>. Then they can be started here.</p></Empty>
        )}
        {flows.data && flows.data.items.length > 0 && (
          <Card title={plural(flows.data.items.length, "flow")} note="success: of the ends of the last 24 hours">
            <table>
              <thead><tr><th class="w-run">Flow</th><th class="c2">What it does</th><th class="num w-took">Nodes</th><th class="num w-took c3">Open</th><th class="num w-took">Success</th><th class="num w-time c3">Published</th><th class="w-act"><span class="sr">Actions</span></th></tr></thead>
              <tbody>
                {flows.data.items.map((f) => (
                  <tr key={f.name} data-flow={f.name} onClick={(e) => (e.target as Element).closest("a") || go(href(["flows", f.name]))}>
                    <td class="id"><Link class="mono strong" to={href(["flows", f.name])}>{f.name}</Link></td>
                    <td class="soft c2">{f.doc}</td>
                    <td class="num">{f.nodes}</td>
                    <td class="num c3">{count(tallies.get(f.name)?.open ?? 0)}</td>
                    <td class="num">{rate(tallies.get(f.name))}</td>
                    <td class="num c3"><Time at={f.published_at} /></td>
                    <td class="num">{session.may("operate") && f.codec === "json" && <Link class="btn sm" to={href(["flows", f.name, "start"])}>Start…</Link>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Card>
        )}
      </div>
    </>
  );
}

function FlowPage({ name }: { name: string }) {
  const session = useSession();
  const flow = useLoad<FlowDetail>((s) => get(["flows", name], {}, s), [name]);
  const [wrap] = useState(() => wrapAt(372));
  const layout = useLoad<Layout>((s) => get(["flows", name, "layout"], { fold: foldBeyond, wrap }, s), [name]);
  const schedules = useLoad<Page<Schedule>>((s) => get(["schedules"], {}, s), []);
  const statistics = useLoad<FlowStatistics>((s) => get(["flows", name, "statistics"], { runs: lookedAt }, s), [name]);
  const stats = new Map(statistics.data?.nodes.map((n) => [n.node, n]));
  const [node, setNode] = useState<string>();
  const [withdraw, setWithdraw] = useState(false);
  const tally = useTallies().get(name);
  const f = flow.data;
  const unpublished = flow.error instanceof ApiError && flow.error.code === "flow_not_published";
  const mine = schedules.data?.items.filter((s) => s.flow === name) ?? [];
  const chosen = layout.data?.nodes.find((n) => n.node === node);
  return (
    <>
      <Top crumbs={<><Link to={href(["flows"])}>Flows</Link> / <h1 class="mono">{name}</h1></>}>
        {session.may("administer") && f && <button type="button" class="btn danger desk" onClick={() => setWithdraw(true)}>Withdraw…</button>}
        {session.may("operate") && f?.codec === "json" && <Link class="btn primary" to={href(["flows", name, "start"])}>Start a run</Link>}
      </Top>
      {flow.error && (unpublished ? <Unpublished name={name} /> : <Fault error={flow.error} retry={flow.reload} />)}
      {!f && !flow.error && <Loading />}
      {f && (
        <div class="split open">
          <div class="work">
            {layout.error && !unpublished && <Fault error={layout.error} retry={layout.reload} />}
            {layout.data && <Graph layout={layout.data} label={`Graph of ${name}`} selected={node} onSelect={setNode} onFold={setNode}
              drawn={(i) => drawnOf(layout.data!.nodes[i]!, stats.get(layout.data!.nodes[i]!.node))} />}
          </div>
          <aside class="panel" aria-label="About the flow">
            <section><h2 class="sr">About the flow</h2><p>{f.doc ?? "No description."}</p></section>
            {chosen && (
              <section>
                <h2 class="mono big">{chosen.node}</h2>
                <dl class="kv"><dt>Kind</dt><dd>{chosen.kind.replace("_", " ")}</dd>{chosen.text && <><dt>Does</dt><dd class="mono">{chosen.text}</dd></>}{chosen.join && <><dt>Needs</dt><dd>{chosen.join}</dd></>}</dl>
                <NodeFacts n={stats.get(chosen.node)} />
              </section>
            )}
            <section>
              <dl class="kv">
                <dt>Nodes</dt><dd>{f.nodes}</dd><dt>Input</dt><dd class="mono">{f.input_type}</dd><dt>Result</dt><dd class="mono">{f.result_type}</dd>
                <dt>Open runs</dt><dd>{tally?.open ?? 0}</dd><dt>Ends in 24 h</dt><dd title="A run that was run again has ended more than once">{[...(tally?.ends ?? [])].map(([state, n]) => `${n} ${state}`).join(", ") || "none"}</dd>
              </dl>
              <Link class="link s" to={href(["runs"], { flow: name })}>Show its runs</Link>
            </section>
            <Versions flow={f} statistics={statistics.data} error={statistics.error} />
            <Slowest flow={name} onSelect={setNode} />
            <section>
              <h3>Schedules</h3>
              {mine.length === 0 && <p class="s muted">None</p>}
              {mine.map((s) => <p key={s.name} class="row s"><Link class="link mono" to={href(["schedules", s.name])}>{s.name}</Link><StateLabel state={s.paused_at ? states.paused : states.delayed} word={s.paused_at ? "Paused" : "Next"} /><Time at={s.next_fire} /></p>)}
            </section>
            {f.input_schema && <section><h3>Schema of the input</h3><JsonText raw={f.input_schema} label="Schema of the input" /></section>}
          </aside>
        </div>
      )}
      {withdraw && <Confirm onClose={() => setWithdraw(false)} act={{
        title: `Withdraw ${name}`, verb: "Withdraw flow", keep: "Keep it", danger: true, done: "Flow withdrawn",
        what: "It leaves the catalogue and cannot be started by name. Its runs stay. A program that publishes it brings it back.",
        run: async () => (await remove(["flows", name]), go(href(["flows"]))),
      }} />}
    </>
  );
}

// Unpublished says what a name is that no published flow has: most often a flow that only runs inside others.
function Unpublished({ name }: { name: string }) {
  const runs = useLoad<Page<Run>>((s) => get(["runs"], { flow: name, children: true, limit: 1 }, s), [name]);
  if (!runs.data && !runs.error) return <Loading />;
  const run = runs.data?.items[0];
  return (
    <Empty title={run ? `${name} has runs, but it is not published.` : `There is no flow ${name}.`}>
      {run ? (
        <p>It may be a sub-flow, which other flows run as one of their nodes, or a flow that was withdrawn. Only published flows have a page and can be started here.</p>
      ) : <p>No flow of this name is published, and no run of it is kept.</p>}
      <div class="row wrap">
        {run && <Link class="btn" to={href(runPath(run.flow, run.run), { tab: "graph" })}>Show the graph of its latest run</Link>}
        <Link class="btn" to={href(["flows"])}>All flows</Link>
      </div>
    </Empty>
  );
}

// lookedAt is how many of the last runs statistics are made of.
const lookedAt = 100;

function drawnOf(placed: PlacedNode, n: NodeStatistics | undefined): Drawn {
  const kind = placed.text || placed.kind.replace("_", "-");
  const failing = n?.failed ? `${percent(n.failed, n.ended)} failed` : "";
  const median = n?.median ? `median ${span(goDuration(n.median))}` : "";
  return { state: n?.failed ? states.failed : states.none, status: [median, failing].filter(Boolean).join(", ") || kind, attempts: 0 };
}

const percent = (n: number, of: number) => `${of ? Math.round((n / of) * 100) : 0} %`;

function NodeFacts({ n }: { n: NodeStatistics | undefined }) {
  if (!n) return null;
  return (
    <dl class="kv" data-node-facts={n.node}>
      <dt>Ended</dt><dd>{plural(n.ended, "time")}{n.skipped ? `, skipped ${n.skipped}` : ""}</dd>
      {n.median && <><dt>Median</dt><dd>{span(goDuration(n.median))}, slowest {span(goDuration(n.slowest))}</dd></>}
      <dt>Failed</dt><dd>{n.failed ?? 0} ({percent(n.failed ?? 0, n.ended)})</dd>
      <dt>Retried</dt><dd>{n.retried ?? 0} ({percent(n.retried ?? 0, n.ended)})</dd>
    </dl>
  );
}

interface VersionsProps { flow: FlowDetail; statistics: FlowStatistics | undefined; error: Error | undefined }

// Versions lists the published versions and those that the last runs have, so it is plain when an old one is free of
// runs.
function Versions({ flow: f, statistics: s, error }: VersionsProps) {
  const [open, setOpen] = useState<string | undefined>(() => new URLSearchParams(location.search).get("version") ?? undefined);
  const runs = new Map(s?.versions.map((v) => [v.hash.slice(0, 10), v]));
  const known = new Set(f.history.map((v) => v.hash.slice(0, 10)));
  const others = s?.versions.filter((v) => !known.has(v.hash.slice(0, 10))) ?? [];
  const most = Math.max(1, ...(s?.versions.map((v) => v.runs) ?? []));
  const asked = new URLSearchParams(location.search).get("version");
  const row = (hash: string, note: ComponentChildren) => {
    const v = runs.get(hash);
    return (
      <li key={hash} data-version={hash} aria-current={hash === asked ? "true" : undefined}>
        <code>{hash}</code>
        <span class="meter wide" aria-hidden="true"><i class="g-accent" style={{ width: `${((v?.runs ?? 0) / most) * 100}%` }} /></span>
        {v ? (
          <button type="button" class="bare row nw" aria-expanded={open === hash} onClick={() => setOpen(open === hash ? undefined : hash)}>
            {plural(v.runs, "run")}, {v.open ?? 0} open <Icon name={open === hash ? "up" : "down"} size={12} />
          </button>
        ) : <span class="nw">no runs</span>}
        <span class="muted ell">{note}</span>
        {v && open === hash && (
          <ul class="ev" data-runs-of={hash}>
            {v.latest.map((r) => <li key={r.run}><StateLabel state={stateOfRun(r)} /><Link class="link mono ell" to={href(runPath(r.flow, r.run))}>{r.run}</Link><span class="grow" /><Time at={r.created_at} /></li>)}
            {v.runs > v.latest.length && <li class="muted">and {plural(v.runs - v.latest.length, "more run")}</li>}
          </ul>
        )}
      </li>
    );
  };
  return (
    <section>
      <h3>Versions</h3>
      <ul class="ev versions">
        {[...known].map((hash) => {
          const v = f.history.find((h) => h.hash.startsWith(hash))!;
          return row(hash, <>{v.hash === f.hash ? "current, " : ""}<Time at={v.published_at} /> {v.published_by}</>);
        })}
        {others.map((v) => row(v.hash.slice(0, 10), "not published"))}
      </ul>
      {error && <p class="fault s">{error.message}</p>}
      {s && <p class="s muted">{s.runs === 0 ? "No run has been started yet." : s.more ? `By the last ${plural(s.runs, "run")}, since ` : `By all ${plural(s.runs, "run")}, since `}{s.since && <Time at={s.since} />}</p>}
    </section>
  );
}

const statisticTimes = [["", "the last runs"], ["1h", "the last hour"], ["24h", "the last 24 hours"], ["yesterday", "yesterday"], ["7d", "the last 7 days"]] as const;

// Slowest lists the nodes that fail most or take longest, in the newest runs of a time.
function Slowest({ flow, onSelect }: { flow: string; onSelect(node: string): void }) {
  const [time, setTime] = useState("");
  const [sort, setSort] = useState<"failures" | "median" | "p95">("failures");
  const loaded = useLoad<FlowStatistics>((s) => get(["flows", flow, "statistics"],
    { runs: time ? 200 : lookedAt, sort, ...(time && { search: time, search_at: searchAt() }) }, s), [flow, time, sort]);
  const list = (loaded.data?.nodes ?? []).filter((n) => n.ended).slice(0, 6);
  return (
    <section aria-label="Failing and slow nodes">
      <h3>Failing and slow nodes</h3>
      <div class="row wrap">
        <label class="chip"><span class="sr">Time of the runs</span>
          <select name="statistics-time" value={time} onChange={(e) => setTime(e.currentTarget.value)}>
            {statisticTimes.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
          </select></label>
        <label class="chip"><span class="sr">Order</span>
          <select name="statistics-sort" value={sort} onChange={(e) => setSort(e.currentTarget.value as typeof sort)}>
            <option value="failures">most failures</option><option value="median">slowest by median</option>
            <option value="p95">slowest by 95 %</option>
          </select></label>
      </div>
      {loaded.error && <p class="fault s">{loaded.error.message}</p>}
      {loaded.data && list.length === 0 && <p class="s muted">No node ended in these runs.</p>}
      <table class="plain">
        <thead><tr><th>Node</th><th class="num">Median</th><th class="num">95 %</th><th class="num">Failed</th></tr></thead>
        <tbody>{list.map((n) => (
          <tr key={n.node} data-statistics={n.node}><td><button type="button" class="bare mono" onClick={() => onSelect(n.node)}>{n.node}</button></td>
            <td class="num">{n.median ? span(goDuration(n.median)) : "–"}</td><td class="num">{n.p95 ? span(goDuration(n.p95)) : "–"}</td><td class={`num ${n.failed ? "c-bad" : ""}`}>{percent(n.failed ?? 0, n.ended)}</td></tr>
        ))}</tbody>
      </table>
    </section>
  );
}
