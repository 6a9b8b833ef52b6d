import { useState } from "preact/hooks";
import { get, post } from "../../api/client";
import type { KeeperTask, Page } from "../../api/types";
import { useLoad } from "../../app/load";
import { faults, useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { plural, words } from "../../lib/text";
import { goDuration, span } from "../../lib/time";
import { Card, Fault, Loading } from "../../ui/basic";
import { Confirm, type Act } from "../../ui/dialog";
import { Spark } from "../../ui/chart";
import { Icon } from "../../ui/icon";
import { usePolled } from "../../ui/polled";

interface Report { steps: number; done: number; lag: string; remaining: number; took: string; partitions: number }

// allowance is how much later than the interval of a task its oldest thing may be due before keepers are late.
const allowance = 6_000;

const isLate = (t: KeeperTask) => !!t.lag && goDuration(t.lag.behind) > goDuration(t.every) + allowance;

// Behind says for how long the oldest thing of a task has been due, now and in the last hour.
function Behind({ task: t }: { task: KeeperTask }) {
  if (!t.lag) return <span class="muted">–</span>;
  const now = goDuration(t.lag.behind), minutes = t.lag.minutes.map(goDuration), worst = Math.max(...minutes);
  const late = isLate(t);
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
  const all = tasks.data?.items ?? [], late = all.filter(isLate), rest = all.filter((t) => !isLate(t));
  const found = faults(session.health).filter((f) => f.code.startsWith("keeper"));
  const healthy = !!session.health.data && found.length === 0 && late.length === 0; // not before the inspection is there
  const table = (list: KeeperTask[]) => (
    <table>
      <thead><tr><th class="w-run">Task</th><th>What it does</th><th class="num w-took c2">At least every</th><th class="w-behind">Behind, last hour</th><th class="w-last c3">Last run from here</th><th class="w-act"><span class="sr">Actions</span></th></tr></thead>
      <tbody>
        {list.map((t) => {
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
  );
  return (
    <>
      <Top crumbs={<h1>Keepers</h1>} />
      <div class="page scroll">
        <Card title="Keepers" note="what keeps runs going: timers, lost workers, retention">
          {tasks.error && <Fault error={tasks.error} retry={tasks.reload} />}
          {!tasks.data && !tasks.error && <Loading />}
          {tasks.data && (
            <>
              <div class="pad gap" data-keepers={healthy ? "ok" : late.length + found.length ? "late" : "unknown"}>
                {healthy && <p class="row c-ok"><Icon name="ok" /> Keepers work: no task is late.</p>}
                {found.map((f) => <p key={f.code + f.subject} class="row c-bad"><Icon name="failed" /> <span>{f.found}. {f.remedy && <span class="soft">{f.remedy}.</span>}</span></p>)}
                {late.length > 0 && <p class="row c-bad"><Icon name="late" /> {late.length === 1 ? "1 task is late." : `${late.length} tasks are late.`}</p>}
              </div>
              {late.length > 0 && table(late)}
              <details>
                <summary class="pad s">{late.length ? `The other ${plural(rest.length, "task")}` : `All ${plural(rest.length, "task")}`}</summary>
                {table(rest)}
              </details>
            </>
          )}
        </Card>
      </div>
      {act && <Confirm act={act} onClose={() => setAct(undefined)} />}
    </>
  );
}
