import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, getTagged, post, put, remove } from "../../api/client";
import type { Budget, BudgetAmount, Page } from "../../api/types";
import { useLoad } from "../../app/load";
import { href, Link, runPath } from "../../app/router";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { count, exact } from "../../lib/text";
import { clock, goDuration, span } from "../../lib/time";
import { usePrefs } from "../../app/prefs";
import { Card, Empty, Fault, Loading } from "../../ui/basic";
import { Confirm, type Act } from "../../ui/dialog";
import { StateLabel, states } from "../../ui/state";
import { Time } from "../../ui/time";
import { usePolled } from "../../ui/polled";

interface Point { at: number; spent: number }

const keyOf = (b: Budget) => [b.name, b.key, b.flow, b.run].join("\n");
const parameters = (b: Budget) => ({ key: b.key, flow: b.flow, run: b.run });

// BudgetsPage shows what is spent of budgets, how fast, and changes them.
export function BudgetsPage() {
  const session = useSession();
  const loaded = useLoad<Page<Budget>>((s) => get(["budgets"], {}, s), []);
  usePolled(loaded.reload, 2000);
  const seen = useSeen(loaded.data?.items);
  const [act, setAct] = useState<Act>();
  const [change, setChange] = useState<{ budget: Budget; etag: string }>();
  const list = loaded.data?.items;
  return (
    <>
      <Top crumbs={<h1>Budgets</h1>} />
      <div class="page scroll">
        {loaded.error && !list && <Fault error={loaded.error} retry={loaded.reload} />}
        {!list && !loaded.error && <Loading />}
        {list?.length === 0 && <Empty title="No budgets yet."><p>A budget bounds what nodes spend together: tokens, calls, money. Flows declare budgets with <code>flow.Budget</code>.</p></Empty>}
        <div class="columns">
          {groups(list ?? []).map((g) => <Spenders key={`${g[0]!.name}\n${g[0]!.flow}`} list={g} />)}
          {list?.filter((b) => !b.run).map((b) => (
            <Card key={keyOf(b)} title={<code>{b.name}</code>} note={noteOf(b)} side={
              <span class="row">
                {session.may("operate") && <button type="button" class="btn sm" onClick={async () => {
                  const r = await getTagged(["budgets", b.name], parameters(b));
                  setChange({ budget: r.data, etag: r.etag });
                }}>Change…</button>}
                {session.may("operate") && <button type="button" class="btn sm" onClick={() => setAct(resetAct(b, loaded.reload))}>Reset…</button>}
                {session.may("administer") && <button type="button" class="btn sm danger" onClick={() => setAct(deleteAct(b, loaded.reload))}>Delete…</button>}
              </span>
            }>
              <div class="pad gap" data-budget={b.name}>
                {b.used_up ? <StateLabel state={states.blocked} word={`Used up: ${b.used_up}`} /> : <StateLabel state={states.succeeded} word="There is room" />}
                {b.amounts.map((a) => <Amount key={a.dimension} budget={b} amount={a} seen={seen.get(`${keyOf(b)}\n${a.dimension}`) ?? []} />)}
                <dl class="kv">
                  {b.resets_at && <><dt>Resets</dt><dd><Time at={b.resets_at} />, every {span(goDuration(b.reset_every))}</dd></>}
                  <dt>When used up</dt><dd>{{ fail: "the node fails", block: "nodes wait", cancel: "the run is cancelled" }[b.effect ?? ""] ?? b.effect}</dd>
                  <dt>Breaches</dt><dd>{b.breaches} hard, {b.soft_breaches} soft</dd>
                </dl>
              </div>
            </Card>
          ))}
        </div>
      </div>
      {act && <Confirm act={act} onClose={() => setAct(undefined)} />}
      {change && <Change {...change} onClose={() => (setChange(undefined), loaded.reload())} />}
    </>
  );
}

// groups are the budgets that each run of a flow has of its own, by name and flow.
function groups(list: Budget[]): Budget[][] {
  const out = new Map<string, Budget[]>();
  for (const b of list) {
    if (!b.run) continue;
    const key = `${b.name}\n${b.flow}`;
    out.set(key, [...(out.get(key) ?? []), b]);
  }
  return [...out.values()];
}

const spendersMost = 10;

// fullness is the largest share of a hard limit that is spent or reserved.
const fullness = (b: Budget) => Math.max(0, ...b.amounts.map((a) => a.hard ? (a.spent + a.reserved) / a.hard : 0));

// Spenders shows which runs spend most of the budgets that they have of their own.
function Spenders({ list }: { list: Budget[] }) {
  const first = list[0]!;
  const sorted = [...list].sort((a, b) => fullness(b) - fullness(a));
  return (
    <Card title={<code>{first.name}</code>} note={`each run of ${first.flow} has its own`}>
      <table>
        <thead><tr><th class="w-time">Who spends</th><th>Spent</th><th class="w-time">State</th></tr></thead>
        <tbody>
          {sorted.slice(0, spendersMost).map((b) => (
            <tr key={b.run} data-spender={b.run}>
              <td class="mono"><Link class="link" to={href(runPath(b.flow!, b.run!))}>{b.run}</Link></td>
              <td><span class="row"><span class="meter" aria-hidden="true"><i class="g-accent" style={{ width: `${Math.min(1, fullness(b)) * 100}%` }} /></span>
                <span class="ell">{b.amounts.map((a) => `${count(a.spent)}${a.hard ? ` of ${count(a.hard)}` : ""} ${a.dimension}`).join(", ")}</span></span></td>
              <td>{b.used_up ? <StateLabel state={states.blocked} word="Used up" /> : <StateLabel state={states.succeeded} word="There is room" />}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {list.length > spendersMost && <p class="s muted pad">The {spendersMost} fullest of {list.length}.</p>}
    </Card>
  );
}

const noteOf = (b: Budget) => [b.key && `key ${b.key}`, b.run ? "of one run" : b.flow ? `of ${b.flow}` : "shared", b.set && "set by an operator"].filter(Boolean).join(" · ");

// useSeen keeps what was spent while the page is open: the API has the present state alone.
function useSeen(list: Budget[] | undefined): Map<string, Point[]> {
  const kept = useRef(new Map<string, Point[]>());
  useEffect(() => {
    for (const b of list ?? []) {
      for (const a of b.amounts) {
        const key = `${keyOf(b)}\n${a.dimension}`;
        const points = kept.current.get(key) ?? [];
        if (points.length && points[points.length - 1]!.spent > a.spent) points.length = 0; // it was reset
        points.push({ at: Date.now(), spent: a.spent });
        kept.current.set(key, points.slice(-300));
      }
    }
  }, [list]);
  return kept.current;
}

function Amount({ budget, amount: a, seen }: { budget: Budget; amount: BudgetAmount; seen: Point[] }) {
  const { zone } = usePrefs();
  const left = a.hard ? a.hard - a.spent - a.reserved : undefined;
  const w = windowOf(budget, a.spent, seen, Date.now());
  const share = (n: number) => `${a.hard ? Math.min(100, (n / a.hard) * 100) : 0}%`;
  return (
    <div class="gap">
      <p class="row"><b class="grow">{a.dimension}</b><span><b>{exact(a.spent)}</b>{a.hard ? ` of ${exact(a.hard)} spent` : " spent"}{a.reserved ? `, ${exact(a.reserved)} reserved` : ""}</span></p>
      {a.hard && (
        <span class="meter wide" role="img" aria-label={`${a.spent} of ${a.hard} spent, ${a.reserved} reserved`}>
          <i class="g-accent" style={{ width: share(a.spent) }} /><i class="p-held" style={{ width: share(a.reserved) }} />
          {a.soft ? <u style={{ left: share(a.soft) }} /> : null}
        </span>
      )}
      {a.hard && <p class="soft" data-forecast>{forecast(w, left ?? 0, zone)}</p>}
      {a.hard && w.points.length > 1 && <BurnDown hard={a.hard} soft={a.soft} w={w} />}
    </div>
  );
}

// Window is what is known of how an amount was spent: since its last reset, or since the page was opened.
interface Window { points: Point[]; from: number; to: number; reset: boolean; pace: number; recent: number }

// windowOf adds to what was seen that nothing was spent when the budget was reset.
function windowOf(b: Budget, spent: number, seen: Point[], now: number): Window {
  const reset = b.resets_at ? Date.parse(b.resets_at) : 0;
  const every = goDuration(b.reset_every);
  const begin = reset && every ? reset - every : 0;
  const points = [...(begin && begin < now ? [{ at: begin, spent: 0 }] : []), ...seen];
  if (points.at(-1)?.spent !== spent || points.length < 2) points.push({ at: now, spent });
  const first = points[0]!, last = points.at(-1)!, before = seen[0];
  const speed = (p: Point | undefined) => p && last.at > p.at ? Math.max(0, last.spent - p.spent) / (last.at - p.at) : 0;
  return {
    points, from: first.at, to: reset && begin ? reset : last.at, reset: !!begin, pace: speed(first),
    recent: seen.length >= 5 ? speed(before) : speed(first),
  };
}

const isEarly = (w: Window) => w.reset ? w.points.at(-1)!.at - w.from < (w.to - w.from) / 20 : w.points.length < 5;

// forecast says when a budget is used up at the pace of what was seen. With fewer than five points, and early in a
// window, it is too early.
function forecast(w: Window, left: number, zone: "utc" | "local"): string {
  const last = w.points.at(-1)!;
  if (left <= 0) return "Nothing is left.";
  if (isEarly(w)) return `${exact(left)} left. Too early to tell how long it lasts.`;
  if (w.pace <= 0) return `${exact(left)} left. Nothing was spent in the last ${span(last.at - w.from)}.`;
  const end = last.at + left / w.pace;
  if (w.reset && end > w.to) return `${exact(left)} left. At this pace it lasts until its reset.`;
  return `${exact(left)} left. At this pace it is used up at about ${clock(new Date(end), zone)}${w.reset ? `, ${span(w.to - end)} before its reset` : ""}.`;
}

// BurnDown draws what is left: as it was, at an even pace, and what is to be expected.
function BurnDown({ hard, soft, w }: { hard: number; soft: number | undefined; w: Window }) {
  const { zone } = usePrefs();
  const to = Math.max(w.to, w.from + 1);
  const last = w.points.at(-1)!;
  const x = (t: number) => 44 + ((Math.min(t, to) - w.from) / (to - w.from)) * 346;
  const y = (left: number) => 8 + (1 - Math.max(0, left) / hard) * 110;
  const line = w.points.map((p, i) => `${i ? "L" : "M"}${x(p.at).toFixed(1)} ${y(hard - p.spent).toFixed(1)}`).join("");
  const left = hard - last.spent;
  const expected = (pace: number): [number, number] => {
    const end = pace > 0 ? Math.min(to, last.at + left / pace) : to;
    return [x(end), y(left - pace * (end - last.at))];
  };
  const a = expected(w.pace), b = expected(w.recent);
  const told = w.reset && w.pace > 0 && !isEarly(w);
  const marks = [w.from, last.at, to].filter((t, i, all) => i === 0 || x(t) - x(all[i - 1]!) > 60);
  return (
    <svg class="burn" viewBox="0 0 400 140" role="img" aria-label={`What is left of ${exact(hard)}: ${exact(left)}${w.reset ? ", since the last reset" : ", since this page was opened"}`}>
      {[0, 0.5, 1].map((part) => <g key={part}><line x1="44" x2="390" y1={y(hard * part)} y2={y(hard * part)} class="k-line" /><text x="38" y={y(hard * part) + 4} text-anchor="end">{count(Math.round(hard * part))}</text></g>)}
      {w.reset && <line x1={x(w.from)} y1={y(hard)} x2={x(to)} y2={y(0)} class="burn-even" />}
      <path d={`${line}L${x(last.at)} ${y(0)}L${x(w.from)} ${y(0)}z`} class="burn-fill" />
      {told && <path d={`M${x(last.at)} ${y(left)}L${a[0]} ${a[1]}L${b[0]} ${b[1]}z`} class="burn-cone" />}
      <path d={line} class="burn-line" />
      {told && <line x1={x(last.at)} y1={y(left)} x2={a[0]} y2={a[1]} class="burn-next" />}
      {soft ? <><line x1="44" x2="390" y1={y(hard - soft)} y2={y(hard - soft)} class="burn-soft" /><text x="48" y={y(hard - soft) - 4} class="burn-word">soft limit: {count(hard - soft)} left</text></> : null}
      <line x1={x(last.at)} x2={x(last.at)} y1="8" y2={y(0)} class="burn-now" />
      {marks.map((t, i) => <text key={t} x={x(t)} y="134" text-anchor={i === 0 ? "start" : t === to ? "end" : "middle"}>{clock(new Date(t), zone).slice(0, -3)}</text>)}
    </svg>
  );
}

const resetAct = (b: Budget, reload: () => void): Act => ({
  title: `Reset ${b.name}`, verb: "Reset budget", done: "Budget reset",
  what: "What is spent counts from nothing again. Nodes that wait for it start.", run: () => post(["budgets", b.name, "reset"], {}, parameters(b)).then(reload),
});

const deleteAct = (b: Budget, reload: () => void): Act => ({
  title: `Delete ${b.name}`, verb: "Delete budget", keep: "Keep it", danger: true, done: "Budget deleted",
  what: "Its limits and what was spent are removed. A flow that declares it makes it anew.", run: () => remove(["budgets", b.name], parameters(b)).then(reload),
});

function Change({ budget: b, etag, onClose }: { budget: Budget; etag: string; onClose(): void }) {
  const [hard, setHard] = useState<Record<string, string>>(Object.fromEntries(b.amounts.map((a) => [a.dimension, String(a.hard ?? "")])));
  const [soft, setSoft] = useState<Record<string, string>>(Object.fromEntries(b.amounts.map((a) => [a.dimension, String(a.soft ?? "")])));
  const [tag, setTag] = useState(etag);
  const [other, setOther] = useState<Budget>();
  const numbers = (all: Record<string, string>) => Object.fromEntries(Object.entries(all).filter(([, v]) => v).map(([k, v]) => [k, Number(v)]));
  return (
    <Confirm onClose={onClose} act={{
      title: `Change ${b.name}`, verb: "Set budget", done: "Budget changed",
      what: <p>A higher limit lets nodes that wait for it start at once. A lower one stops nothing that runs.{other && <b class="c-bad"> Somebody has set it to {other.amounts.map((a) => `${exact(a.hard ?? 0)} ${a.dimension}`).join(", ")} meanwhile. Set again to replace that.</b>}</p>,
      run: async () => {
        try {
          await put(["budgets", b.name], { hard: numbers(hard), soft: numbers(soft) }, parameters(b), tag);
        } catch (e) {
          if (e instanceof ApiError && e.status === 412) {
            const now = await getTagged(["budgets", b.name], parameters(b));
            setOther(now.data);
            setTag(now.etag);
            throw new Error("The budget was changed while you edited. Compare and set it again.");
          }
          throw e;
        }
      },
    }}>
      {b.amounts.map((a) => (
        <div key={a.dimension} class="row">
          <label class="field grow"><span>{a.dimension}: hard limit</span><input class="input" name={`hard-${a.dimension}`} inputMode="numeric" value={hard[a.dimension]} onInput={(e) => setHard({ ...hard, [a.dimension]: e.currentTarget.value })} /></label>
          <label class="field grow"><span>soft limit</span><input class="input" inputMode="numeric" value={soft[a.dimension]} onInput={(e) => setSoft({ ...soft, [a.dimension]: e.currentTarget.value })} /></label>
        </div>
      ))}
    </Confirm>
  );
}
