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
import { usePolled } from "../lanes/page";

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
          {list?.map((b) => (
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
                {b.run && b.flow && <p class="s">of run <Link class="link mono" to={href(runPath(b.flow, b.run))}>{b.run}</Link></p>}
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
      {a.hard && <p class="s soft">{forecast(seen, left ?? 0, budget.resets_at, zone)}</p>}
      {a.hard && seen.length > 1 && <BurnDown hard={a.hard} soft={a.soft} seen={seen} />}
    </div>
  );
}

// forecast says when a budget is used up at the pace of what was seen. With fewer than five points it is too early.
function forecast(seen: Point[], left: number, resets: string | undefined, zone: "utc" | "local"): string {
  const first = seen[0], last = seen[seen.length - 1];
  if (left <= 0) return "Nothing is left.";
  if (!first || !last || seen.length < 5) return `${exact(left)} left. Too early to tell how long it lasts.`;
  const pace = (last.spent - first.spent) / (last.at - first.at);
  if (pace <= 0) return `${exact(left)} left. Nothing was spent in the last ${span(last.at - first.at)}.`;
  const end = new Date(last.at + left / pace);
  const reset = resets ? Date.parse(resets) : 0;
  if (reset && end.getTime() > reset) return `${exact(left)} left. At this pace it lasts until its reset.`;
  return `${exact(left)} left. At this pace it is used up at about ${clock(end, zone)}${reset ? `, ${span(reset - end.getTime())} before its reset` : ""}.`;
}

// BurnDown draws what is left since the page was opened.
function BurnDown({ hard, soft, seen }: { hard: number; soft: number | undefined; seen: Point[] }) {
  const from = seen[0]!.at, to = Math.max(seen[seen.length - 1]!.at, from + 1);
  const x = (t: number) => 40 + ((t - from) / (to - from)) * 350;
  const y = (left: number) => 8 + (1 - left / hard) * 90;
  const line = seen.map((p, i) => `${i ? "L" : "M"}${x(p.at).toFixed(1)} ${y(Math.max(0, hard - p.spent)).toFixed(1)}`).join("");
  return (
    <svg class="burn" viewBox="0 0 400 112" role="img" aria-label={`What is left of ${exact(hard)}, since this page was opened: ${exact(hard - seen[seen.length - 1]!.spent)}`}>
      {[0, 0.5, 1].map((part) => <g key={part}><line x1="40" x2="390" y1={y(hard * part)} y2={y(hard * part)} class="k-line" /><text x="34" y={y(hard * part) + 4} text-anchor="end">{count(Math.round(hard * part))}</text></g>)}
      <path d={`${line}L${x(to)} ${y(0)}L40 ${y(0)}z`} class="burn-fill" />
      <path d={line} class="burn-line" />
      {soft ? <line x1="40" x2="390" y1={y(hard - soft)} y2={y(hard - soft)} class="burn-soft" /> : null}
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
  const numbers = (all: Record<string, string>) => Object.fromEntries(Object.entries(all).filter(([, v]) => v).map(([k, v]) => [k, Number(v)]));
  return (
    <Confirm onClose={onClose} act={{
      title: `Change ${b.name}`, verb: "Set budget", done: "Budget changed",
      what: "A higher limit lets nodes that wait for it start at once. A lower one stops nothing that runs.",
      run: async () => {
        try {
          await put(["budgets", b.name], { hard: numbers(hard), soft: numbers(soft) }, parameters(b), etag);
        } catch (e) {
          if (e instanceof ApiError && e.status === 412) throw new Error("The budget was changed while you edited. Close this and open it again.");
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
