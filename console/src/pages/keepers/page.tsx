import { useState } from "preact/hooks";
import { get, post } from "../../api/client";
import type { KeeperTask, Page } from "../../api/types";
import { useLoad } from "../../app/load";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { plural, words } from "../../lib/text";
import { goDuration, span } from "../../lib/time";
import { Card, Fault, Loading } from "../../ui/basic";
import { Confirm, type Act } from "../../ui/dialog";
import { Spark } from "../../ui/chart";
import { usePolled } from "../../ui/polled";

interface Report { steps: number; done: number; lag: string; remaining: number; took: string; partitions: number }

// allowance is how much later than the interval of a task its oldest thing may be due before keepers are late.
const allowance = 6_000;

// Behind says for how long the oldest thing of a task has been due, now and in the last hour.
function Behind({ task: t }: { task: KeeperTask }) {
  if (!t.lag) return <span class="muted">–</span>;
  const now = goDuration(t.lag.behind), minutes = t.lag.minutes.map(goDuration), worst = Math.max(...minutes);
  const late = now > goDuration(t.every) + allowance;
  return (
    <span class={`row ${late ? "c-bad strong" : ""}`} title={`At most ${span(worst)} in the last hour`} data-behind={t.name}>
      <span class="nw">{late ? `late by ${span(now)}` : now ? span(now) : "nothing"}</span>
      {worst > 0 && <Spark values={minutes} label={`Behind, minute by minute: at most ${span(worst)}`} />}
    </span>
  );
}

// KeepersPage shows the tasks of keepers.
export function KeepersPage() {
  const session = useSession();
  const tasks = useLoad<Page<KeeperTask>>((s) => get(["keeper-tasks"], {}, s), []);
  usePolled(tasks.reload, 15_000);
  const [act, setAct] = useState<Act>();
  const [reports, setReports] = useState<Record<string, Report>>({});
  const run = (t: KeeperTask): Act => ({
    title: `Run ${t.name} now`, verb: "Run task", done: "Task carried out", what: `${t.summary}. Keepers do this by themselves at least every ${span(goDuration(t.every))}.`,
    run: async () => {
      const r = await post(["keeper-tasks", t.name, "run"]);
      setReports((old) => ({ ...old, [t.name]: r }));
    },
  });
  return (
    <>
      <Top crumbs={<h1>Keepers</h1>} />
      <div class="page scroll">
        <Card title="Tasks of keepers" note="what keeps runs going: timers, lost workers, retention">
          {tasks.error && <Fault error={tasks.error} retry={tasks.reload} />}
          {!tasks.data && !tasks.error && <Loading />}
          {tasks.data && (
            <table>
              <thead><tr><th class="w-run">Task</th><th>What it does</th><th class="num w-took c2">At least every</th><th class="w-behind">Behind, last hour</th><th class="w-last c3">Last run from here</th><th class="w-act"><span class="sr">Actions</span></th></tr></thead>
              <tbody>
                {tasks.data.items.map((t) => {
                  const r = reports[t.name];
                  return (
                    <tr key={t.name} data-task={t.name}>
                      <td class="mono strong">{words(t.name)}</td><td class="soft" title={t.summary}>{t.summary}</td>
                      <td class="num c2">{span(goDuration(t.every))}</td>
                      <td><Behind task={t} /></td>
                      <td class="c3">{r ? `${plural(r.done, "thing")} done, lag ${span(goDuration(r.lag))}` : <span class="muted">–</span>}</td>
                      <td class="num">{session.may("administer") && <button type="button" class="btn sm" onClick={() => setAct(run(t))}>Run…</button>}</td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          )}
        </Card>
      </div>
      {act && <Confirm act={act} onClose={() => setAct(undefined)} />}
    </>
  );
}
