import { Fragment } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post } from "../../api/client";
import type { RunPath } from "../../api/operations";
import type { Attempt, ChildRun as Child, MapItem as Item, Operations, Page, Node as RunNode, ReceivedSignal as Signal, Wait } from "../../api/types";
import { useLoad } from "../../app/load";
import { usePrefs } from "../../app/prefs";
import { href, Link, runPath, setQuery, useQuery } from "../../app/router";
import { useSession } from "../../app/session";
import { plural, words } from "../../lib/text";
import { CopyButton, Fault, Loading, ValueView } from "../../ui/basic";
import { Confirm, type Act } from "../../ui/dialog";
import { Icon } from "../../ui/icon";
import { ended, nodeState, StateLabel, stateOfNode, stateOfRun } from "../../ui/state";
import { Ago, Time, Took } from "../../ui/time";
import { Remedy } from "../../ui/remedy";
import { remedy, sentence } from "../../ui/why";
import { rerunAct } from "./actions";
import type { RunData } from "./data";
import { buildName, generations, workerName } from "./nodes";
import { askKey } from "../../lib/ask";
import { SignalDialog, takesSignals } from "./signal";

interface Props { data: RunData; node: string; onClose(): void; onRerun(node: string | undefined): void; onFork(): void }

// Panel shows one node: its state, why it waits, attempts, values, and what can be done.
export function Panel({ data, node: name, onClose, onRerun, onFork }: Props) {
  const session = useSession();
  const run = data.run.data!;
  const path = runPath(run.flow, run.run);
  const brief = data.nodes.get(name);
  const version = `${brief?.state} ${brief?.attempts} ${brief?.waiting?.reason} ${brief?.waiting?.have}`;
  const loaded = useLoad<RunNode>((s) => get([...path, "nodes", name], { values: session.reads }, s), [run.flow, run.run, name]);
  useEffect(() => loaded.reload(), [version, data.layout.at]);
  const [act, setAct] = useState<Act>();
  const [signal, setSignal] = useState(false);
  const n = loaded.data ? { ...loaded.data, ...(brief && { waiting: brief.waiting!, state: brief.state }) } : brief;
  const state = n ? stateOfNode(n) : nodeState("waiting_children");
  const over = ended(run.state);
  const operate = session.may("operate");
  const open = (a: Act, mark?: string) => (setAct(a), onRerun(mark));
  return (
    <aside class="panel" aria-label={`Node ${name}`}>
      <section>
        <div class="row">
          <h2 class="mono big ell grow" title={name}>{name}</h2>
          <CopyButton text={location.href} label="Copy link" />
          <button type="button" class="btn quiet icon" aria-label="Close the panel" onClick={onClose}><Icon name="x" /></button>
        </div>
        <div class="row wrap">
          <StateLabel state={state} pill />
          <span class="s muted">{words(n?.kind ?? "")}{n?.activity ? <> · <code>{n.activity}</code></> : null}</span>
        </div>
      </section>
      {loaded.error && !n && <Fault error={loaded.error} retry={loaded.reload} />}
      {!n && !loaded.error && <Loading />}
      {n && <WhyNode n={n} />}
      {n?.waits?.map((w) => <Answers key={w.id} wait={w} />)}
      {n && n.reason && state.hue === "bad" && <Failure n={n} />}
      {n && n.kind !== "waitpoint" && (n.history?.length ?? 0) > 0 && <Attempts list={n.history!} />}
      {n?.child && <ChildRuns n={n} child={n.child} path={[...path, "nodes", name]} />}
      {n && <Facts n={n} />}
      {n && (
        <section class="gap">
          {n.kind !== "waitpoint" && <><h3>Input</h3><ValueView value={loaded.data?.input} label={`Input of ${name}`} /></>}
          <h3>Result</h3><ValueView value={loaded.data?.result} label={`Result of ${name}`} />
        </section>
      )}
      <section>
        <h3>What happened</h3>
        <ul class="ev">
          {data.events.filter((e) => e.node === name).slice(-8).map((e) => (
            <li key={e.id}><Time at={e.at} /><span class="ell" title={e.detail}>{words(e.kind)} <span class="muted">{(e.message ?? e.detail ?? "").split("\n")[0]}</span></span></li>
          ))}
        </ul>
        <button type="button" class="link s" onClick={() => setQuery({ tab: "events" })}>All events of the node</button>
        {session.reads && <> · <button type="button" class="link s" onClick={() => setQuery({ tab: "logs" })}>Logs and stream</button></>}
      </section>
      {n && (operate || session.may("approve")) && (
        <section class="row wrap">
          {operate && over && (
            <button type="button" class="btn" onClick={() => open(rerunAct(path, data, "from", name), name)}>Rerun from here…</button>
          )}
          {operate && <button type="button" class="btn" onClick={onFork}>Fork from here…</button>}
          {session.may("approve") && takesSignals(run, n) && (
            <button type="button" class="btn" onClick={() => setSignal(true)}>Signal…</button>
          )}
          {operate && !over && !["ok", "bad"].includes(state.hue) && !["cancelled", "skipped"].includes(state.key) && (
            <button type="button" class="btn danger" onClick={() => open(cancelNode(path, name))}>Cancel node…</button>
          )}
        </section>
      )}
      {signal && <SignalDialog run={run} data={data} node={name} onClose={() => (setSignal(false), loaded.reload())} />}
      {act && <Confirm act={act} onClose={() => (setAct(undefined), onRerun(undefined), loaded.reload())} />}
    </aside>
  );
}

const cancelNode = (path: RunPath, name: string): Act => ({
  title: `Cancel ${name}`, verb: "Cancel node", keep: "Keep it", danger: true, reason: true, done: "Node cancelled",
  what: "The node ends without a result. Nodes behind it are skipped unless they tolerate that.",
  run: (reason) => post([...path, "nodes", name, "cancel"], { reason }),
});

function WhyNode({ n }: { n: RunNode }) {
  const session = useSession();
  const { zone } = usePrefs();
  const w = n.waiting;
  if (!w) return null;
  const ask = n.waits?.[0];
  return (
    <section class="gap">
      <h3>Why it waits</h3>
      <p class="first">{sentence(w, zone, n.waits?.[0])}.</p>
      {remedy(w) && <p class="soft first">{remedy(w)}.</p>}
      <dl class="kv">
        {w.since && <><dt>Since</dt><dd><Time at={w.since} /> (<Ago at={w.since} />)</dd></>}
        {w.until && <><dt>{ask?.timeout_at ? deadline(ask) : "Until"}</dt><dd><Time at={w.until} /> (<Ago at={w.until} />)</dd></>}
        {w.by && <><dt>By</dt><dd>{w.by}</dd></>}
        {w.detail && <><dt>Detail</dt><dd class="lines">{w.detail}</dd></>}
      </dl>
      <Remedy why={w} />
      {ask && session.may("approve") && <Link class="btn primary" to={href(["inbox"], { ask: askKey(ask) })}>Answer</Link>}
    </section>
  );
}

// deadline says what happens at the end of the time for answers.
const deadline = (w: Wait) => w.escalated ? "Escalated" : w.on_timeout === "escalate" ? "Escalates" : "Ends";

// Answers lists who has answered a wait.
export function Answers({ wait }: { wait: Wait }) {
  const session = useSession();
  const loaded = useLoad<Page<Signal>>(
    (s) => session.reads ? get([...runPath(wait.flow, wait.run), "waits", wait.id, "signals"], {}, s) : Promise.resolve({ items: [] }),
    [wait.id, wait.received]);
  const missing = wait.state === "closed" ? 0 : Math.max(0, wait.needed - wait.received);
  return (
    <section class="gap">
      <div class="row"><h3 class="grow">Answers</h3><b>{wait.received} of {wait.needed}</b></div>
      {wait.audience?.length ? <p class="s soft">Asked: {wait.audience.join(", ")}</p> : null}
      {missing > 0 && <p class="s row" data-missing={missing}><Icon name="none" size={14} />{missing === 1 ? "1 answer is missing" : `${missing} answers are missing`}{wait.distinct ? `, each from ${loaded.data?.items.length ? "somebody else" : "another person"}` : ""}</p>}
      {loaded.data?.items.map((s) => (
        <div key={s.id} class="row s">
          <span class="avatar" aria-hidden="true">{(s.source ?? "?").slice(0, 2).toUpperCase()}</span>
          <span class="grow">{s.source ?? "unknown"}<br /><span class="muted"><code>{s.name}</code> at <Time at={s.at} /></span></span>
          <span class={s.counts ? "c-ok" : "muted"}>{s.counts ? "Counts" : "Does not count"}</span>
        </div>
      ))}
      {wait.timeout_at && wait.state !== "closed" && (
        <p class="s soft row"><Icon name="delayed" /><span>{deadline(wait)} <Time at={wait.timeout_at} /> (<Ago at={wait.timeout_at} />)</span></p>
      )}
    </section>
  );
}

const Failure = ({ n }: { n: RunNode }) => (
  <section class="gap">
    <h3>Error{n.category && n.category !== "error" ? `: ${n.category}` : ""}</h3>
    <pre class="json" tabIndex={0} role="region" aria-label="Error">{n.reason}</pre>
  </section>
);

// Attempts lists the attempts, those of the last rerun first. They are numbered from 1 in each rerun, as retries count them.
function Attempts({ list }: { list: Attempt[] }) {
  const chosen = Number(useQuery().get("attempt") ?? 0);
  const groups = generations(list);
  const last = list[list.length - 1];
  return (
    <section data-generations={groups.length}>
      {groups.map(({ replay, attempts }) => (
        <Fragment key={replay}>
          <h3>{groups.length === 1 ? "Attempts" : replay === 0 ? "Attempts before any rerun" : `Attempts of rerun ${replay}`}</h3>
          {attempts.map(({ a, number }) => <AttemptOf key={a.number} a={a} number={number} open={a.number === chosen || (!chosen && a === last && !!(a.error || a.stack))} chosen={chosen} />)}
        </Fragment>
      ))}
    </section>
  );
}

function AttemptOf({ a, number, open, chosen }: { a: Attempt; number: number; open: boolean; chosen: number }) {
  const state = a.outcome ? nodeState(outcomeState[a.outcome] ?? a.outcome) : a.aside ? nodeState("suspended") : nodeState("active");
  return (
    <details open={open} data-attempt={number}
      onToggle={(e) => (e.currentTarget as HTMLDetailsElement).open && !open && a.number !== chosen && setQuery({ attempt: String(a.number) })}>
      <summary class="row s">
        <b>#{number}</b><StateLabel state={state} word={a.outcome ? words(a.outcome) : a.aside ? words(a.aside) : "running"} />
        <span class="grow" /><Took from={a.begun} to={a.ended} />
      </summary>
      <dl class="kv">
        <dt>Begun</dt><dd><Time at={a.begun} /></dd>
        {a.worker && <><dt>Worker</dt><dd class="mono" title={a.worker}>{workerName(a.worker)}</dd></>}
        {a.build && <><dt>Build</dt><dd class="mono" data-build title={buildName(a.build)}>{buildName(a.build)}{a.build.modified ? ", modified" : ""}</dd></>}
        {a.build?.library && <><dt>Library</dt><dd class="mono" title={a.build.library}>{a.build.library}</dd></>}
        {a.message && <><dt>Message</dt><dd>{a.message}</dd></>}
        {a.category && a.category !== "error" && <><dt>Category</dt><dd class="mono">{a.category}</dd></>}
      </dl>
      {a.error && <pre class="json" tabIndex={0} role="region" aria-label={`Error of attempt ${number}`}>{a.error}</pre>}
      {a.stack && <><h4 class="s soft">Stack</h4><pre class="json" tabIndex={0} role="region" aria-label={`Stack of attempt ${number}`}>{a.stack}</pre></>}
    </details>
  );
}

const outcomeState: Record<string, string> = { success: "completed", retry: "failed", lost: "failed", panicked: "failed" };

const Facts = ({ n }: { n: RunNode }) => (
  <section>
    <dl class="kv">
      {n.lane && <><dt>Lane</dt><dd><Link class="link mono" to={href(["lanes", n.lane])}>{n.lane}</Link></dd></>}
      {n.worker && <><dt>Worker</dt><dd class="mono" title={n.worker}>{workerName(n.worker)}</dd></>}
      {n.capabilities?.length ? <><dt>Needs</dt><dd class="mono">{n.capabilities.join(", ")}</dd></> : null}
      <dt>Attempts</dt><dd>{n.attempts}{n.reclaims ? `, ${n.reclaims} after a lost worker` : ""}{n.replays ? `, ${plural(n.replays, "rerun")}` : ""}</dd>
      {n.started_at && <><dt>Ran</dt><dd><Time at={n.started_at} />, <Took from={n.started_at} to={n.completed_at} /></dd></>}
      {n.message && <><dt>Message</dt><dd>{n.message}</dd></>}
      <dt>Execution</dt><dd><CopyButton text={n.execution!} label="Copy its id" /></dd>
    </dl>
  </section>
);

type NodePath = Operations["get-node"]["path"];

// ChildRuns shows the items of a map, the turns of a loop, or the one child run of a sub-flow, and leads to them.
function ChildRuns({ n, child, path }: { n: RunNode; child: Child; path: NodePath }) {
  const noun = n.kind === "map" ? "item" : "node";
  return (
    <section class="gap" data-children={n.kind}>
      <div class="row">
        <h3 class="grow">{n.kind === "map" ? "Items" : n.kind === "loop" ? "Child runs" : "Child run"}</h3>
        <Link class="link s" to={href(runPath(child.flow, child.run))}>Open the child run</Link>
      </div>
      <p class="s soft">
        {n.kind === "loop" ? `Turn ${n.generation ?? 1}, ` : ""}{plural(child.total, noun)}: {child.succeeded} succeeded, {(child.failed ?? 0) + (child.expired ?? 0)} failed, {child.open} open
        {child.cancelled ? `, ${child.cancelled} cancelled` : ""}
      </p>
      {n.kind === "map" && <Items child={child} path={path} />}
      {n.kind === "loop" && <Turns child={child} path={path} />}
    </section>
  );
}

// Turns lists the child runs of a loop.
function Turns({ child, path }: { child: Child; path: NodePath }) {
  const loaded = useLoad<Page<Child>>((s) => get([...path, "turns"], {}, s), [child.run, child.open]);
  if (loaded.error) return <Fault error={loaded.error} retry={loaded.reload} />;
  return (
    <ul class="ev">
      {loaded.data?.items.map((t) => (
        <li key={t.turn} data-turn={t.turn}>
          <Link class="link" to={href(runPath(t.flow, t.run))}>Turn {t.turn}</Link>
          {t.state && <StateLabel state={stateOfRun({ state: t.state })} />}
        </li>
      ))}
    </ul>
  );
}

const itemPage = 100;

// Items shows the items of a map, page by page.
function Items({ child, path }: { child: Child; path: NodePath }) {
  const session = useSession();
  const [pages, setPages] = useState<Item[]>([]);
  const [next, setNext] = useState<string>();
  const [error, setError] = useState<Error>();
  const [item, setItem] = useState<number>();
  const load = (cursor?: string) => get([...path, "items"], { limit: itemPage, cursor }).then(
    (p) => (setPages((old) => cursor ? [...old, ...p.items] : p.items), setNext(p.next)), setError);
  useEffect(() => {
    if (session.reads) void load();
  }, [child.open, child.total]);
  const chosen = pages.find((p) => p.index === item);
  return (
    <>
      {error && <p class="fault">{error.message}</p>}
      <div class="cells" role="group" aria-label="Items">
        {pages.map((p) => {
          const s = nodeState(p.state);
          return (
            <button key={p.index} type="button" class={`cell c-${s.hue}`} title={`${p.index}: ${s.word}`} aria-pressed={p.index === item}
              aria-label={`Item ${p.index}, ${s.word.toLowerCase()}`} onClick={() => setItem(p.index)}><Icon name={s.icon} size={12} /></button>
          );
        })}
      </div>
      {next && <button type="button" class="btn sm" onClick={() => load(next)}>Show {itemPage} more</button>}
      {chosen && (
        <div class="gap">
          <b class="s">Item {chosen.index}: {nodeState(chosen.state).word.toLowerCase()}, {plural(chosen.attempts, "attempt")}</b>
          {chosen.reason && <pre class="json" tabIndex={0} role="region" aria-label="Error of the item">{chosen.reason}</pre>}
          {chosen.result && <ValueView value={chosen.result} label="Result of the item" />}
        </div>
      )}
    </>
  );
}
