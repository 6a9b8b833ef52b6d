import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { get, remove } from "../../api/client";
import type {
  Flow, FlowDetail, FlowStatistics, Layout, NodeStatistics, Page, PlacedNode, RunCount, Schedule,
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
import { Icon } from "../../ui/icon";
import { StateLabel, stateOfRun, states } from "../../ui/state";
import { Time } from "../../ui/time";

export const FlowsPage = ({ name }: { name: string | undefined }) => name ? <FlowPage key={name} name={name} /> : <FlowList />;

interface Tally { open: number; ok: number; bad: number }

function useTallies(): Map<string, Tally> {
  const from = new Date((Math.floor(Date.now() / 3_600_000) - 24) * 3_600_000).toISOString();
  const counts = useLoad<RunCount[]>(async (s) => {
    const open = await get(["counts"], { by: ["flow", "state"], state: ["running"] }, s);
    const ends = await get(["counts"], { by: ["flow", "state"], finished_from: from }, s);
    return [...open.items, ...ends.items.filter((c) => c.state !== "running")];
  }, []);
  useFeed(() => counts.reload());
  const out = new Map<string, Tally>();
  for (const c of counts.data ?? []) {
    const t = out.get(c.flow!) ?? { open: 0, ok: 0, bad: 0 };
    if (c.state === "running") t.open += c.runs;
    else if (c.state === "succeeded") t.ok += c.runs;
    else t.bad += c.runs;
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
          <Card title={plural(flows.data.items.length, "flow")} note="runs of the last 24 hours">
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
  const layout = useLoad<Layout>((s) => get(["flows", name, "layout"], {}, s), [name]);
  const schedules = useLoad<Page<Schedule>>((s) => get(["schedules"], {}, s), []);
  const statistics = useLoad<FlowStatistics>((s) => get(["flows", name, "statistics"], { runs: lookedAt }, s), [name]);
  const stats = new Map(statistics.data?.nodes.map((n) => [n.node, n]));
  const [node, setNode] = useState<string>();
  const [withdraw, setWithdraw] = useState(false);
  const tally = useTallies().get(name);
  const f = flow.data;
  const mine = schedules.data?.items.filter((s) => s.flow === name) ?? [];
  const chosen = layout.data?.nodes.find((n) => n.node === node);
  return (
    <>
      <Top crumbs={<><Link to={href(["flows"])}>Flows</Link> / <h1 class="mono">{name}</h1></>}>
        {session.may("administer") && f && <button type="button" class="btn danger desk" onClick={() => setWithdraw(true)}>Withdraw…</button>}
        {session.may("operate") && f?.codec === "json" && <Link class="btn primary" to={href(["flows", name, "start"])}>Start a run</Link>}
      </Top>
      {flow.error && <Fault error={flow.error} retry={flow.reload} />}
      {!f && !flow.error && <Loading />}
      {f && (
        <div class="split open">
          <div class="work">
            {layout.error && <Fault error={layout.error} retry={layout.reload} />}
            {layout.data && <Graph layout={layout.data} label={`Graph of ${name}`} selected={node} onSelect={setNode}
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
                <dt>Last 24 h</dt><dd>{tally ? `${tally.open} open, ${tally.ok} succeeded, ${tally.bad} not` : "no runs"}</dd>
              </dl>
              <Link class="link s" to={href(["runs"], { flow: name })}>Show its runs</Link>
            </section>
            <Versions flow={f} statistics={statistics.data} error={statistics.error} />
            <Slowest nodes={statistics.data?.nodes ?? []} onSelect={setNode} />
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
  const [open, setOpen] = useState<string>();
  const runs = new Map(s?.versions.map((v) => [v.hash.slice(0, 10), v]));
  const known = new Set(f.history.map((v) => v.hash.slice(0, 10)));
  const others = s?.versions.filter((v) => !known.has(v.hash.slice(0, 10))) ?? [];
  const most = Math.max(1, ...(s?.versions.map((v) => v.runs) ?? []));
  const row = (hash: string, note: ComponentChildren) => {
    const v = runs.get(hash);
    return (
      <li key={hash} data-version={hash}>
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

// Slowest lists the nodes that take longest and those that fail.
function Slowest({ nodes, onSelect }: { nodes: NodeStatistics[]; onSelect(node: string): void }) {
  const list = [...nodes].filter((n) => n.ended).sort((a, b) =>
    (b.failed ?? 0) - (a.failed ?? 0) || goDuration(b.median) - goDuration(a.median)).slice(0, 6);
  if (list.length === 0) return null;
  return (
    <section>
      <h3>Failing and slow nodes</h3>
      <table class="plain">
        <thead><tr><th>Node</th><th class="num">Median</th><th class="num">Failed</th></tr></thead>
        <tbody>{list.map((n) => (
          <tr key={n.node} data-statistics={n.node}><td><button type="button" class="bare mono" onClick={() => onSelect(n.node)}>{n.node}</button></td>
            <td class="num">{n.median ? span(goDuration(n.median)) : "–"}</td><td class={`num ${n.failed ? "c-bad" : ""}`}>{percent(n.failed ?? 0, n.ended)}</td></tr>
        ))}</tbody>
      </table>
    </section>
  );
}
