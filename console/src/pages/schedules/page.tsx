import { useState } from "preact/hooks";
import { get, post, remove } from "../../api/client";
import type { Page, RunNow, Schedule, ScheduleFire as Fire } from "../../api/types";
import { useFeed } from "../../app/live";
import { useLoad } from "../../app/load";
import { go, href, Link, runPath } from "../../app/router";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { plural, words } from "../../lib/text";
import { goDuration, span } from "../../lib/time";
import { Card, Empty, Fault, Loading, Tags, ValueView } from "../../ui/basic";
import { Confirm, Made, type Act } from "../../ui/dialog";
import { StateLabel, stateOfRun, states, type State } from "../../ui/state";
import { Edit } from "./edit";
import { Ago, Time } from "../../ui/time";

export const SchedulesPage = ({ name }: { name: string | undefined }) => name ? <One key={name} name={name} /> : <List />;

// timetable writes when a schedule fires.
const timetable = (s: Schedule) => s.cron ? `${s.cron}, ${s.time_zone || "UTC"}` : `every ${span(goDuration(s.every))}`;

const stateOf = (s: Schedule) => s.paused_at ? states.paused : s.next_fire ? states.delayed : states.succeeded;

const StateOf = ({ s }: { s: Schedule }) => (
  <StateLabel state={stateOf(s)} word={s.paused_at ? "Paused" : s.next_fire ? "Active" : "Over"} />
);

function List() {
  const loaded = useLoad<Page<Schedule>>((s) => get(["schedules"], {}, s), []);
  useFeed(() => loaded.reload());
  const list = loaded.data?.items;
  return (
    <>
      <Top crumbs={<h1>Schedules</h1>} />
      <div class="page scroll">
        {loaded.error && !list && <Fault error={loaded.error} retry={loaded.reload} />}
        {!list && !loaded.error && <Loading />}
        {list?.length === 0 && <Empty title="No schedules yet."><p>A schedule starts a flow by the clock. Programs declare schedules with <code>runtime.Schedule</code>.</p></Empty>}
        {list && list.length > 0 && (
          <Card title={plural(list.length, "schedule")}>
            <table>
              <thead><tr><th class="w-state">State</th><th class="w-run">Schedule and flow</th><th>When</th><th class="w-time num">Next</th><th class="w-state c2">Last result</th><th class="c3 w-state">Overlap</th></tr></thead>
              <tbody>
                {list.map((s) => (
                  <tr key={s.name} data-schedule={s.name} onClick={(e) => (e.target as Element).closest("a") || go(href(["schedules", s.name]))}>
                    <td><StateOf s={s} /></td>
                    <td class="id two"><Link class="mono strong" to={href(["schedules", s.name])}>{s.name}</Link><small>{s.flow}</small></td>
                    <td class="mono s">{timetable(s)}</td>
                    <td class="num"><Time at={s.paused_at ? undefined : s.next_fire} /></td>
                    <td class="c2">{s.last_run_state ? <StateLabel state={stateOfRun({ state: s.last_run_state })} /> : <span class="muted">–</span>}</td>
                    <td class="soft c3">{words(s.overlap ?? "")}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Card>
        )}
      </div>
    </>
  );
}

function One({ name }: { name: string }) {
  const session = useSession();
  const loaded = useLoad<Schedule>((s) => get(["schedules", name], {}, s), [name]);
  const fires = useLoad<Page<string>>((s) => get(["schedules", name, "fires"], { limit: 10 }, s), [name]);
  useFeed(() => loaded.reload());
  const values = useLoad<Schedule | null>((s) => session.reads ? get(["schedules", name], { values: true }, s) : Promise.resolve(null),
    [name, loaded.data?.updated_at ?? ""]);
  const [act, setAct] = useState<Act>();
  const [edit, setEdit] = useState(false);
  const s = loaded.data;
  const acts = s && actsOf(s, loaded.reload);
  return (
    <>
      <Top crumbs={<><Link to={href(["schedules"])}>Schedules</Link> / <h1 class="mono">{name}</h1></>}>
        {acts && session.may("administer") && <button type="button" class="btn danger desk" onClick={() => setAct(acts.remove)}>Delete…</button>}
        {s && session.may("operate") && <button type="button" class="btn" onClick={() => setEdit(true)}>Edit…</button>}
        {acts && session.may("operate") && <button type="button" class="btn" onClick={() => setAct(acts.pause)}>{s.paused_at ? "Resume…" : "Pause…"}</button>}
        {acts && session.may("operate") && <button type="button" class="btn primary" onClick={() => setAct(acts.trigger)}>Trigger now…</button>}
      </Top>
      <div class="page scroll">
        {loaded.error && !s && <Fault error={loaded.error} retry={loaded.reload} />}
        {!s && !loaded.error && <Loading />}
        {s && (
          <>
            <div class="row wrap"><StateOf s={s} /><code>{timetable(s)}</code><span class="soft">starts <Link class="link" to={href(["flows", s.flow])}>{s.flow}</Link></span><Tags tags={s.tags} /></div>
            {s.paused_at && <p class="why w-held">Paused since <Time at={s.paused_at} />{s.pause_reason ? `: ${s.pause_reason}` : "."}{" "}
              {session.may("operate") && <button type="button" class="link" onClick={() => setAct(acts!.reason)}>Change the reason…</button>}</p>}
            <div class="stats">
              {([["Started", s.started], ["Skipped", s.skipped], ["Missed", s.missed], ["Failed", s.failed], ["Waiting", s.waiting ?? 0]] as const).map(([w, n]) => <div key={w}>{w}<b>{n}</b></div>)}
            </div>
            <div class="columns">
              <Card title="Next times" note={s.jitter ? `each up to ${span(goDuration(s.jitter))} later` : undefined}>
                <ul class="ev pad">{(s.paused_at ? [] : fires.data?.items ?? []).map((t) => <li key={t}><Time at={t} /><span class="muted"><Ago at={t} /></span></li>)}
                  {(s.paused_at || fires.data?.items.length === 0) && <li class="muted">None{s.paused_at ? " while it is paused" : ""}</li>}</ul>
              </Card>
              <Card title="History"><Fires list={s.history ?? []} /></Card>
              <Card title="Input of its runs"><div class="pad">{values.error ? <Fault error={values.error} retry={values.reload} /> : values.data === undefined ? <Loading /> : <ValueView value={values.data?.input} label="Input of its runs" />}</div></Card>
            </div>
          </>
        )}
      </div>
      {act && <Confirm act={act} onClose={() => setAct(undefined)} />}
      {edit && s && !(values.loading && values.data === undefined) && <Edit schedule={s} input={values.data?.input} onClose={() => (setEdit(false), loaded.reload(), fires.reload())} />}
    </>
  );
}

// Fires lists the times at which the schedule has fired, each start with the present state of its run.
function Fires({ list }: { list: Fire[] }) {
  const runs = list.flatMap((f) => f.flow && f.run ? [{ flow: f.flow, run: f.run }] : []).slice(0, 100);
  const loaded = useLoad<Page<RunNow>>(
    () => runs.length ? post(["runs", "explain"], { runs }) : Promise.resolve({ items: [] }), [runs.map((r) => r.run).join()]);
  useFeed((events) => events.some((e) => runs.some((r) => r.flow === e.flow && r.run === e.run)) && loaded.reload());
  if (list.length === 0) return <Empty title="It has not fired yet." />;
  const stateOfFire = (f: Fire): State => {
    const now = loaded.data?.items.find((r) => r.flow === f.flow && r.run === f.run);
    if (now) return stateOfRun(now, now);
    const mark = f.outcome === "failed" ? states.failed : f.outcome === "started" ? states.none : states.skipped;
    return { ...mark, word: words(f.outcome) };
  };
  return (
    <table>
      <thead><tr><th class="w-time">Time</th><th class="w-state">Outcome</th><th>Run</th></tr></thead>
      <tbody>
        {list.map((f, i) => (
          <tr key={i}>
            <td><Time at={f.at} /></td>
            <td data-fire={f.outcome}><StateLabel state={stateOfFire(f)} />{f.count > 1 && ` ${f.count}×`}</td>
            <td class="mono wrapped">{f.triggered && <span class="tag">triggered</span>}{f.run && f.flow ? <Link class="link" to={href(runPath(f.flow, f.run))}>{f.run}</Link> : <span class="soft">{f.reason}</span>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function actsOf(s: Schedule, reload: () => void): { pause: Act; reason: Act; trigger: Act; remove: Act } {
  const path = ["schedules", s.name] as const;
  const then = (p: Promise<unknown>) => p.then(reload);
  return {
    pause: s.paused_at ? {
      title: "Resume schedule", verb: "Resume schedule", done: "Schedule resumed", what: "It fires again at its next time.",
      run: () => then(post([...path, "resume"])),
    } : {
      title: "Pause schedule", verb: "Pause schedule", reason: true, done: "Schedule paused",
      what: "It does not fire until it is resumed. Runs that it has started go on.",
      run: (reason) => then(post([...path, "pause"], { reason })),
    },
    reason: {
      title: "Reason of the pause", verb: "Change the reason", reason: true, done: "Reason changed", what: "The schedule stays paused.",
      run: (reason) => then(post([...path, "pause"], { reason })),
    },
    trigger: {
      title: "Trigger now", verb: "Trigger now", done: "Schedule triggered", what: `One run of ${s.flow} starts now, beside the timetable.`,
      run: async () => {
        const made = await post([...path, "trigger"]);
        reload();
        return made.flow && made.run ? new Made({ to: href(runPath(made.flow, made.run)), text: made.run }) : undefined;
      },
    },
    remove: {
      title: "Delete schedule", verb: "Delete schedule", keep: "Keep it", danger: true, done: "Schedule deleted",
      what: "It fires no more and its history is removed. Its runs stay.",
      run: async () => (await remove(path), go(href(["schedules"]))),
    },
  };
}
