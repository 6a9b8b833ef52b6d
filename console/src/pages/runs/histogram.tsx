import { get } from "../../api/client";
import type { RunCount } from "../../api/types";
import { useLoad } from "../../app/load";
import { usePrefs } from "../../app/prefs";
import { setQuery } from "../../app/router";
import { plural } from "../../lib/text";
import { clock } from "../../lib/time";
import type { Filters } from "./filters";

const bars = 48;
const hour = 3_600_000;

interface Bar { at: number; started: number; failed: number }

// Histogram shows how many runs of the flow started in each hour, and how many failed. A bar sets the time.
export function Histogram({ filters }: { filters: Filters }) {
  const { zone } = usePrefs();
  const last = Math.floor(Date.now() / hour) * hour;
  const loaded = useLoad<Bar[]>(async (s) => {
    const from = new Date(last - (bars - 1) * hour).toISOString();
    const read = (more: object) => get(["counts"], { flow: filters.flow, by: ["hour"], ...more }, s);
    const started = await read({ created_from: from });
    const failed = await read({ finished_from: from, state: ["failed", "expired"] });
    const list = Array.from({ length: bars }, (_, i) => ({ at: last - (bars - 1 - i) * hour, started: 0, failed: 0 }));
    const at = (c: RunCount) => list[Math.round((Date.parse(c.hour ?? "") - list[0]!.at) / hour)];
    for (const c of started.items) (at(c) ?? list[0]!).started += c.runs ?? 0;
    for (const c of failed.items) (at(c) ?? list[0]!).failed += c.ends ?? 0;
    return list;
  }, [filters.flow, last]);
  const list = loaded.data ?? [];
  const most = Math.max(1, ...list.map((b) => Math.max(b.started, b.failed)));
  const height = (n: number) => ({ height: `${n ? Math.max(2, (n / most) * 34) : 0}px` });
  return (
    <div class="histogram desk" role="group" aria-label="Starts per hour of the last two days">
      {list.map((b) => {
        const text = `${clock(new Date(b.at), zone)}: ${plural(b.started, "start")}, ${plural(b.failed, "failed end")}`;
        return (
          <button key={b.at} type="button" title={text} aria-label={text} tabIndex={b.started ? 0 : -1}
            onClick={() => setQuery({
              from: new Date(b.at).toISOString(), before: new Date(b.at + hour).toISOString(),
            })}>
            <i class="g-bad" style={height(b.failed)} />
            <i class="g-done" style={height(Math.max(0, b.started - b.failed))} />
          </button>
        );
      })}
    </div>
  );
}
