import { get } from "../../api/client";
import type { Page, RunCount } from "../../api/types";
import { useLoad } from "../../app/load";
import { usePrefs } from "../../app/prefs";
import { setQuery } from "../../app/router";
import { plural } from "../../lib/text";
import { clock } from "../../lib/time";
import { parametersOf, type Filters } from "./filters";

const bars = 48;
const hour = 3_600_000;

interface Bar { at: number; ok: number; open: number; bad: number }

// Histogram shows when runs started and how they ended, by hour. A bar sets the time.
export function Histogram({ filters }: { filters: Filters }) {
  const { zone } = usePrefs();
  const last = Math.floor(Date.now() / hour) * hour;
  const loaded = useLoad<Page<RunCount>>((s) => get(["counts"], {
    ...parametersOf({ ...filters, from: "", before: "" }), created_from: new Date(last - (bars - 1) * hour).toISOString(),
    by: ["hour", "state"],
  }, s), [filters.q, filters.flow, filters.tags, filters.states, last]);
  const list: Bar[] = Array.from({ length: bars }, (_, i) => ({
    at: last - (bars - 1 - i) * hour, ok: 0, open: 0, bad: 0,
  }));
  for (const c of loaded.data?.items ?? []) {
    const bar = list[Math.round((Date.parse(c.hour ?? "") - list[0]!.at) / hour)];
    if (!bar) continue;
    if (c.state === "running") bar.open += c.runs;
    else if (c.state === "failed" || c.state === "expired") bar.bad += c.runs;
    else bar.ok += c.runs;
  }
  const most = Math.max(1, ...list.map((b) => b.ok + b.open + b.bad));
  const height = (n: number) => (n / most) * 34;
  return (
    <div class="histogram desk" role="group" aria-label="Starts per hour of the last two days">
      {list.map((b) => {
        const text = `${clock(new Date(b.at), zone)}: ${plural(b.ok + b.open + b.bad, "run")}, ${b.bad} failed`;
        return (
          <button key={b.at} type="button" title={text} aria-label={text} tabIndex={b.ok + b.open + b.bad ? 0 : -1}
            onClick={() => setQuery({
              from: new Date(b.at).toISOString(), before: new Date(b.at + hour).toISOString(),
            })}>
            <i class="g-bad" style={{ height: `${height(b.bad)}px` }} />
            <i class="g-run" style={{ height: `${height(b.open)}px` }} />
            <i class="g-done" style={{ height: `${height(b.ok)}px` }} />
          </button>
        );
      })}
    </div>
  );
}
