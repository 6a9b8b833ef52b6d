import { useState } from "preact/hooks";
import { get, post } from "../../api/client";
import type { Budget, Lane, Limit, Page, Pause, Worker } from "../../api/types";
import { useFeed } from "../../app/live";
import { useLoad } from "../../app/load";
import { go, href, Link } from "../../app/router";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { count, plural } from "../../lib/text";
import { Card, Empty, Fault, Loading } from "../../ui/basic";
import { Confirm, type Act } from "../../ui/dialog";
import { StateLabel, states, type State } from "../../ui/state";
import { usePolled } from "../../ui/polled";
import { Time, Took } from "../../ui/time";
import { keyOf } from "../budgets/burndown";
import { byFullness, fullness, Spent } from "../budgets/use";
import { Starts, useLaneHistory, WaitingAndRunning } from "./history";
import { NextUp } from "./queue";

const held = (l: Lane) => l.delayed + l.blocked.budget + l.blocked.quota + l.blocked.route + l.blocked.operator;

const byHealth: Record<string, State> = {
  paused: states.paused, unserved: states.unserved, blocked: states.blocked, late: { ...states.late, word: "Late" },
};

// stateOf is the verdict of the server, or what a healthy lane does.
const stateOf = (l: Lane): State => byHealth[l.health.state]
  ?? (l.active ? { ...states.running, word: "Serving" } : l.eligible ? { ...states.queued, word: "Waiting" } : { ...states.succeeded, word: "Idle" });

export function LanesPage({ name }: { name: string | undefined }) {
  const loaded = useLoad<Page<Lane>>((s) => get(["lanes"], {}, s), []);
  useFeed(() => loaded.reload());
  usePolled(loaded.reload);
  const lane = name ? loaded.data?.items.find((l) => l.name === name) : undefined;
  if (name) return <One name={name} lane={lane} loading={!loaded.data} reload={loaded.reload} />;
  const list = loaded.data?.items;
  return (
    <>
      <Top crumbs={<h1>Lanes</h1>} />
      <div class="page scroll">
        {loaded.error && !list && <Fault error={loaded.error} retry={loaded.reload} />}
        {!list && !loaded.error && <Loading />}
        {list?.length === 0 && <Empty title="No lane has work yet."><p>A lane is what workers claim from. It appears with its first node.</p></Empty>}
        {list && list.length > 0 && (
          <Card title={plural(list.length, "lane")}>
            <table>
              <thead><tr><th class="w-state">State</th><th>Lane</th><th class="num w-took">Ready</th><th class="num w-took">Running</th><th class="num w-took c2">Suspended</th><th class="num w-took">Held back</th><th class="num w-time c3">Oldest ready</th></tr></thead>
              <tbody>
                {list.map((l) => (
                  <tr key={l.name} data-lane={l.name} onClick={(e) => (e.target as Element).closest("a") || go(href(["lanes", l.name]))}>
                    <td title={l.health.reason}><StateLabel state={stateOf(l)} /></td>
                    <td class="two"><Link class="mono strong" to={href(["lanes", l.name])}>{l.name}</Link>{l.health.reason && <small class="soft" title={l.health.reason}>{l.health.reason}</small>}</td>
                    <td class="num">{count(l.eligible)}</td><td class="num">{count(l.active)}</td><td class="num c2">{count(l.suspended)}</td>
                    <td class="num">{count(held(l))}</td><td class="num c3">{l.oldest ? <Took from={l.oldest} /> : "–"}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Card>
        )}
        <Pauses />
      </div>
    </>
  );
}

function Pauses() {
  const session = useSession();
  const loaded = useLoad<Page<Pause>>((s) => get(["pauses"], {}, s), []);
  usePolled(loaded.reload);
  const [act, setAct] = useState<Act>();
  const list = loaded.data?.items.filter((p) => p.activity) ?? [];
  if (list.length === 0) return null;
  return (
    <Card title="Paused activities">
      <table>
        <thead><tr><th>Activity</th><th>By</th><th>Reason</th><th class="num w-time">Since</th><th class="w-act"><span class="sr">Actions</span></th></tr></thead>
        <tbody>
          {list.map((p) => (
            <tr key={p.activity}>
              <td class="mono strong">{p.activity}</td><td>{p.by}</td><td class="soft">{p.reason}</td><td class="num"><Time at={p.since} /></td>
              <td class="num">{session.may("operate") && <button type="button" class="btn sm" onClick={() => setAct({
                title: `Resume ${p.activity}`, verb: "Resume activity", done: "Activity resumed", what: "Its nodes start again.",
                run: () => post(["activities", p.activity!, "resume"]).then(loaded.reload),
              })}>Resume…</button>}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {act && <Confirm act={act} onClose={() => setAct(undefined)} />}
    </Card>
  );
}

interface OneProps { name: string; lane: Lane | undefined; loading: boolean; reload(): void }

function One({ name, lane, loading, reload }: OneProps) {
  const session = useSession();
  const workers = useLoad<Page<Worker>>((s) => get(["workers"], {}, s), []);
  const limits = useLoad<Page<Limit>>((s) => get(["limits"], {}, s), []);
  const budgets = useLoad<Page<Budget>>((s) => get(["budgets"], {}, s), []);
  const past = useLaneHistory(name);
  const [act, setAct] = useState<Act>();
  const serving = workers.data?.items.filter((w) => w.lanes?.includes(name)) ?? [];
  const pause: Act = lane?.paused_at ? {
    title: `Resume ${name}`, verb: "Resume lane", done: "Lane resumed", what: `Workers claim again. ${plural(lane.eligible, "node")} can start.`,
    run: () => post(["lanes", name, "resume"]).then(reload),
  } : {
    title: `Pause ${name}`, verb: "Pause lane", reason: true, done: "Lane paused",
    what: `Workers claim nothing from it until it is resumed. ${plural(lane?.active ?? 0, "running node")} will finish.`,
    run: (reason) => post(["lanes", name, "pause"], { reason }).then(reload),
  };
  return (
    <>
      <Top crumbs={<><Link to={href(["lanes"])}>Lanes</Link> / <h1 class="mono">{name}</h1></>}>
        {lane && session.may("operate") && <button type="button" class="btn" onClick={() => setAct(pause)}>{lane.paused_at ? "Resume lane…" : "Pause lane…"}</button>}
      </Top>
      <div class="page scroll">
        {!lane && loading && <Loading />}
        {!lane && !loading && <Empty title={`There is no lane ${name} with work.`} />}
        {lane && (
          <>
            <div class="row wrap">
              <StateLabel state={stateOf(lane)} pill />
              <span class="soft">{plural(serving.reduce((n, w) => n + w.slots, 0), "slot")} on {plural(serving.length, "worker")}</span>
              {lane.health.reason && <span class={lane.health.state === "unserved" ? "c-lost" : "soft"} data-health={lane.health.state}>{lane.health.reason}{lane.health.since && <>, since <Time at={lane.health.since} /></>}</span>}
            </div>
            <div class="stats">
              <div><StateLabel state={states.queued} word="Ready to run" /><b>{count(lane.eligible)}</b></div>
              <div><StateLabel state={states.running} /><b>{count(lane.active)}</b></div>
              <div><StateLabel state={states.blocked} word="Held back" /><b>{count(held(lane))}</b></div>
              <div><StateLabel state={states.unserved} /><b>{count(lane.health.state === "unserved" ? lane.health.nodes ?? 0 : 0)}</b></div>
              <div>Oldest ready<b>{lane.oldest ? <Took from={lane.oldest} /> : "–"}</b></div>
              <Starts samples={past} />
            </div>
            <div class="lane">
              <div class="stack">
                <NextUp lane={name} paused={!!lane.paused_at} />
                <HeldBack lane={lane} />
                <WaitingAndRunning samples={past} />
              </div>
              <div class="stack">
                <Card title="Limits in use" side={<Link class="link s" to={href(["limits"])}>All limits</Link>}>
                  <LimitBars list={limits.data?.items.filter((l) => l.waiting > 0 || l.running > 0) ?? []} />
                </Card>
                <ShortBudgets list={budgets.data?.items ?? []} />
                <Card title="Workers">
                  <ul class="ev pad">{serving.map((w) => <li key={w.instance}><Link class="link mono ell grow" to={href(["workers"])}>{w.name || w.instance}</Link><span class="muted nw">{w.used} of {w.slots} busy</span></li>)}
                    {serving.length === 0 && <li class="c-lost">No live worker serves this lane.</li>}</ul>
                </Card>
              </div>
            </div>
          </>
        )}
      </div>
      {act && <Confirm act={act} onClose={() => setAct(undefined)} />}
    </>
  );
}

// HeldBack answers "nothing runs, why": by cause, with the remedy.
function HeldBack({ lane }: { lane: Lane }) {
  const rows: [State, number, string, preact.JSX.Element | null][] = [
    [states.blocked, lane.blocked.quota, "a limit is full", <Link class="link" to={href(["limits"])}>Show limits</Link>],
    [states.blocked, lane.blocked.budget, "a budget is used up", <Link class="link" to={href(["budgets"])}>Show budgets</Link>],
    [states.delayed, lane.delayed, "delays and retries", null],
    [states.unserved, lane.blocked.route, "no worker registers the activity or offers the capabilities", <Link class="link" to={href(["workers"])}>Show workers</Link>],
    [states.paused, lane.blocked.operator, "their run or activity is paused, or a program blocks them", <Link class="link" to={href(["runs"], { state: "running" })}>Show runs</Link>],
    [states.none, lane.blocked.dependencies, "wait for other nodes", null],
    [states.signal, lane.suspended, "wait for signals or timers", <Link class="link" to={href(["inbox"])}>Show the inbox</Link>],
  ];
  const shown = rows.filter(([, n]) => n > 0);
  return (
    <Card title="Held back" note="nodes that do not take part until something changes">
      {shown.length === 0 ? <Empty title="Nothing is held back." /> : (
        <table>
          <thead><tr><th class="w-state">State</th><th class="num w-took">Nodes</th><th>Because</th><th class="num w-time"><span class="sr">Remedy</span></th></tr></thead>
          <tbody>{shown.map(([state, n, why, remedy]) => <tr key={why}><td><StateLabel state={state} /></td><td class="num strong">{count(n)}</td><td>{why}</td><td class="num">{remedy}</td></tr>)}</tbody>
        </table>
      )}
    </Card>
  );
}

// ShortBudgets shows the budgets that hold nodes back, or of which little is left, the fullest first.
function ShortBudgets({ list }: { list: Budget[] }) {
  const short = byFullness(list.filter((b) => b.used_up || fullness(b) >= 0.8)).slice(0, 5);
  if (short.length === 0) return null;
  return (
    <Card title="Budgets that run out" side={<Link class="link s" to={href(["budgets"])}>All budgets</Link>}>
      {short.map((b) => (
        <div key={keyOf(b)} class="limit" data-short={b.name}>
          <p class="row s"><Link class="mono strong" to={href(["budgets"], { name: b.name, key: b.key })}>{b.name}</Link>{(b.key || b.run) && <span class="tag ell">{b.key || b.run}</span>}
            <span class="grow" />{b.used_up ? <span class="c-held">Used up</span> : <span class="muted">{Math.floor(fullness(b) * 100)} %</span>}</p>
          <Spent b={b} />
          {b.resets_at && <p class="s muted">Resets <Time at={b.resets_at} /></p>}
        </div>
      ))}
    </Card>
  );
}

// LimitBars shows how full limits are: places as cells, or as a bar.
export function LimitBars({ list }: { list: Limit[] }) {
  if (list.length === 0) return <Empty title="No limit is in use." />;
  return (
    <>
      {list.map((l) => (
        <div key={l.name + l.key} class="limit">
          <p class="row s"><Link class="mono strong" to={limitHref(l)}>{l.name}</Link>{l.key && <span class="tag">{l.key}</span>}<span class="grow" />{usage(l)}</p>
          <Places limit={l} />
          <p class={`s ${l.waiting ? "c-held" : "muted"}`}>{l.waiting ? `${plural(l.waiting, "node")} ${l.waiting === 1 ? "waits" : "wait"}` : "Nothing waits"}</p>
        </div>
      ))}
    </>
  );
}

export const limitHref = (l: Limit) => href(["limits", l.name, ...(l.key ? [l.key] : [])]);

export const usage = (l: Limit) => [l.at_once ? `${l.running} of ${l.at_once} at once` : "", l.at_most ? `${l.started} of ${l.at_most} per ${l.per}` : ""]
  .filter(Boolean).join(" · ");

export function Places({ limit: l }: { limit: Limit }) {
  if (l.at_once && l.at_once <= 40) {
    return <span class="places" role="img" aria-label={usage(l)}>{Array.from({ length: l.at_once }, (_, i) => <i key={i} class={i < l.running ? "on" : ""} />)}</span>;
  }
  const share = l.at_once ? l.running / l.at_once : l.at_most ? l.started / l.at_most : 0;
  return <span class="meter wide" role="img" aria-label={usage(l)}><i class="g-accent" style={{ width: `${Math.min(1, share) * 100}%` }} /></span>;
}
