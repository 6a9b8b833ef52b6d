// What waited and ran in a lane during the last hour, as the server has sampled it.
import { get } from "../../api/client";
import type { LaneHistory, LaneSample } from "../../api/types";
import { useLoad } from "../../app/load";
import { usePrefs } from "../../app/prefs";
import { count, exact } from "../../lib/text";
import { clock } from "../../lib/time";
import { Card, Empty } from "../../ui/basic";
import { Spark, Stack } from "../../ui/chart";
import { usePolled } from "../../ui/polled";

const minute = 60_000;

export function useLaneHistory(lane: string): LaneSample[] | undefined {
  const loaded = useLoad<LaneHistory>((s) => get(["lanes", lane, "history"], {}, s), [lane]);
  usePolled(loaded.reload, 15_000);
  return loaded.data?.samples;
}

// perMinute adds up what was started in each minute before the last sample, the latest last. The first sample has no
// time before it.
function perMinute(samples: LaneSample[]): number[] {
  const end = Date.parse(samples.at(-1)!.at);
  const ago = (s: LaneSample) => Math.floor((end - Date.parse(s.at)) / minute);
  const list = new Array<number>(ago(samples[0]!) + 1).fill(0);
  for (const s of samples.slice(1)) list[list.length - 1 - ago(s)]! += s.started;
  return list;
}

// Starts says how many attempts began in the last minute. Workers report them every minute.
export function Starts({ samples }: { samples: LaneSample[] | undefined }) {
  const list = samples && samples.length > 1 ? perMinute(samples) : [];
  return (
    <div title="By the reports of workers, which come every minute">
      Starts per minute
      <b class="row">{list.length ? count(list.at(-1)!) : "–"} <Spark values={list} label={`Starts per minute: ${list.join(", ")}`} /></b>
    </div>
  );
}

// WaitingAndRunning draws the last hour.
export function WaitingAndRunning({ samples }: { samples: LaneSample[] | undefined }) {
  const { zone } = usePrefs();
  const now = samples?.at(-1);
  if (!samples || !now) return null;
  const from = clock(new Date(samples[0]!.at), zone), most = Math.max(...samples.map((s) => s.eligible + s.held_back));
  const text = `Since ${from}: at most ${exact(most)} waited and ${exact(Math.max(...samples.map((s) => s.active)))} ran`;
  return (
    <Card title="Waiting and running" note={`since ${from}`} side={(
      <span class="row s wrap soft nw">
        <span><i class="sw k-below" /> {count(now.eligible)} ready</span>
        <span><i class="sw k-above" /> {count(now.held_back)} held back</span>
        <span><i class="sw k-run" /> {count(now.active)} running</span>
      </span>
    )}>
      {samples.length < 2 ? <Empty title="The server has just begun to look." />
        : <Stack label={text} samples={samples.map((s) => ({ at: Date.parse(s.at), below: s.eligible, above: s.held_back, line: s.active }))} />}
      {samples.length >= 2 && <p class="s muted pad">{text}.</p>}
    </Card>
  );
}
