// What is left of a budget: as it was when it was sampled, and what is to be expected.
import { useEffect, useRef } from "preact/hooks";
import type { Budget, BudgetAmount, BudgetSample } from "../../api/types";
import { usePrefs } from "../../app/prefs";
import { count, exact } from "../../lib/text";
import { clock, goDuration, span } from "../../lib/time";

export interface Point { at: number; spent: number }

export const keyOf = (b: Budget) => [b.name, b.key, b.flow, b.run].join("\n");

// useSeen keeps what was spent while the page is open, which is more often than the server samples it.
export function useSeen(list: readonly Budget[] | undefined): Map<string, Point[]> {
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

// pointsOf joins what the server has sampled of an amount, since its last reset, with what was seen after that.
export function pointsOf(past: BudgetSample[] | undefined, dimension: string, seen: Point[]): Point[] {
  let points: Point[] = [];
  for (const s of past ?? []) {
    const spent = s.spent[dimension] ?? 0;
    if (points.length && points.at(-1)!.spent > spent) points = [];
    points.push({ at: Date.parse(s.at), spent });
  }
  const last = points.at(-1);
  if (!last) return seen;
  const later = seen.filter((p) => p.at > last.at);
  return later.length && later[0]!.spent < last.spent ? later : [...points, ...later];
}

// AmountProps are one dimension of a budget. Of a budget of one run, it is known when the run began and, of one that is
// over, when it ended.
interface AmountProps { budget: Budget; amount: BudgetAmount; seen: Point[]; begun?: string | undefined; ended?: string | undefined }

// Amount shows one dimension of a budget.
export function Amount({ budget, amount: a, seen, begun, ended }: AmountProps) {
  const { zone } = usePrefs();
  const left = a.hard ? a.hard - a.spent - a.reserved : undefined;
  const w = windowOf(budget, a.spent, seen, begun ? Date.parse(begun) : 0, ended ? Date.parse(ended) : Date.now());
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
      {a.hard && <p class="soft" data-forecast>{ended ? `${exact(left ?? 0)} left when the run ended.` : forecast(w, left ?? 0, zone)}</p>}
      {a.hard && w.points.length > 1 && <BurnDown hard={a.hard} soft={a.soft} w={w} over={!!ended} />}
    </div>
  );
}

// Window is what is known of how an amount was spent: since its last reset, since its run began, or since it was first
// sampled.
interface Window { points: Point[]; from: number; to: number; reset: boolean; since: string; seen: number; pace: number; recent: number }

// windowOf adds to what was seen that nothing was spent when the budget was reset, or when its run began.
function windowOf(b: Budget, spent: number, all: Point[], begun: number, now: number): Window {
  const reset = b.resets_at ? Date.parse(b.resets_at) : 0;
  const every = goDuration(b.reset_every);
  const begin = reset && every ? reset - every : begun;
  const seen = all.filter((p) => p.at <= now);
  const points = [...(begin && begin < now ? [{ at: begin, spent: 0 }] : []), ...seen];
  if (points.at(-1)?.spent !== spent || points.length < 2) points.push({ at: now, spent });
  const first = points[0]!, last = points.at(-1)!, before = seen[0];
  const speed = (p: Point | undefined) => p && last.at > p.at ? Math.max(0, last.spent - p.spent) / (last.at - p.at) : 0;
  return {
    points, seen: seen.length, from: first.at, to: reset && begin ? reset : last.at, reset: !!(reset && begin),
    since: reset && begin ? "the last reset" : begun ? "the run began" : "it was first sampled",
    // A run spends in bursts: what counts is what it spent while it was sampled.
    pace: speed(begun && !reset ? before : first),
    recent: seen.length >= 5 ? speed(before) : speed(first),
  };
}

const isEarly = (w: Window) => w.reset ? w.points.at(-1)!.at - w.from < (w.to - w.from) / 20 : w.seen < 5;

// forecast says when a budget is used up at the pace of what was seen. With fewer than five points, and early in a
// window, it is too early.
function forecast(w: Window, left: number, zone: "utc" | "local"): string {
  const last = w.points.at(-1)!;
  if (left <= 0) return "Nothing is left.";
  if (isEarly(w)) return `${exact(left)} left. Too early to tell how long it lasts.`;
  if (w.pace <= 0) return `${exact(left)} left. Nothing was spent in the last ${span(last.at - (w.since === "the run began" ? w.points.at(-w.seen)!.at : w.from))}.`;
  const end = last.at + left / w.pace;
  if (w.reset && end > w.to) return `${exact(left)} left. At this pace it lasts until its reset.`;
  return `${exact(left)} left. At this pace it is used up at about ${clock(new Date(end), zone)}${w.reset ? `, ${span(w.to - end)} before its reset` : ""}.`;
}

// BurnDown draws what is left: as it was, at an even pace, and what is to be expected.
function BurnDown({ hard, soft, w, over }: { hard: number; soft: number | undefined; w: Window; over: boolean }) {
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
    <svg class="burn" viewBox="0 0 400 140" role="img" aria-label={`What is left of ${exact(hard)}: ${exact(left)}, since ${w.since}`}>
      {[0, 0.5, 1].map((part) => <g key={part}><line x1="44" x2="390" y1={y(hard * part)} y2={y(hard * part)} class="k-line" /><text x="38" y={y(hard * part) + 4} text-anchor="end">{count(Math.round(hard * part))}</text></g>)}
      {w.reset && <line x1={x(w.from)} y1={y(hard)} x2={x(to)} y2={y(0)} class="burn-even" />}
      <path d={`${line}L${x(last.at)} ${y(0)}L${x(w.from)} ${y(0)}z`} class="burn-fill" />
      {told && <path d={`M${x(last.at)} ${y(left)}L${a[0]} ${a[1]}L${b[0]} ${b[1]}z`} class="burn-cone" />}
      <path d={line} class="burn-line" />
      {told && <line x1={x(last.at)} y1={y(left)} x2={a[0]} y2={a[1]} class="burn-next" />}
      {soft ? <><line x1="44" x2="390" y1={y(hard - soft)} y2={y(hard - soft)} class="burn-soft" /><text x="48" y={y(hard - soft) - 4} class="burn-word">soft limit: {count(hard - soft)} left</text></> : null}
      {!over && <line x1={x(last.at)} x2={x(last.at)} y1="8" y2={y(0)} class="burn-now" />}
      {marks.map((t, i) => <text key={t} x={x(t)} y="134" text-anchor={i === 0 ? "start" : t === to ? "end" : "middle"}>{clock(new Date(t), zone).slice(0, -3)}</text>)}
    </svg>
  );
}

