import { useState } from "preact/hooks";
import { get, post } from "../../api/client";
import type { BulkJob, Page } from "../../api/types";
import { useLoad } from "../../app/load";
import { go, href, Link, runPath } from "../../app/router";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { exact, plural, words } from "../../lib/text";
import { Card, Empty, Fault, Loading } from "../../ui/basic";
import { Confirm } from "../../ui/dialog";
import { StateLabel, states } from "../../ui/state";
import { Time, Took } from "../../ui/time";
import { usePolled } from "../../ui/polled";

const State = ({ job }: { job: BulkJob }) => job.state === "running" ? <StateLabel state={states.running} />
  : job.state === "completed" ? <StateLabel state={states.succeeded} word="Completed" /> : <StateLabel state={states.cancelled} word="Stopped" />;

const actionText = (job: BulkJob) => [words(job.action.kind), job.action.scope, job.action.priority].filter(Boolean).join(" ");

export const BulkPage = ({ id }: { id: string | undefined }) => id ? <One key={id} id={id} /> : <List />;

function List() {
  const loaded = useLoad<Page<BulkJob>>((s) => get(["bulk"], {}, s), []);
  usePolled(loaded.reload, 3000);
  const list = loaded.data?.items;
  return (
    <>
      <Top crumbs={<h1>Bulk jobs</h1>} />
      <div class="page scroll">
        {loaded.error && !list && <Fault error={loaded.error} retry={loaded.reload} />}
        {!list && !loaded.error && <Loading />}
        {list?.length === 0 && <Empty title="No bulk jobs yet."><p>Select all runs that match in the list of runs, then choose an action.</p><Link class="btn" to={href(["runs"])}>Go to the runs</Link></Empty>}
        {list && list.length > 0 && (
          <Card title={plural(list.length, "bulk job")}>
            <table>
              <thead><tr><th class="w-state">State</th><th class="w-run">Job</th><th>Action</th><th class="c2">Runs</th><th class="num w-took">Done</th><th class="num w-took">Refused</th><th class="c3">By</th><th class="num w-time c3">Began</th></tr></thead>
              <tbody>
                {list.map((j) => (
                  <tr key={j.id} data-job={j.id} onClick={(e) => (e.target as Element).closest("a") || go(href(["bulk", j.id]))}>
                    <td><State job={j} /></td><td class="mono"><Link class="strong" to={href(["bulk", j.id])}>{j.id}</Link></td><td>{actionText(j)}</td>
                    <td class="mono s c2 ell">{j.query || "all"}</td><td class="num">{exact(j.progress.done)}</td><td class="num">{exact(j.progress.failed)}</td>
                    <td class="c3">{j.actor}</td><td class="num c3"><Time at={j.created_at} /></td>
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

function One({ id }: { id: string }) {
  const session = useSession();
  const loaded = useLoad<BulkJob>((s) => get(["bulk", id], {}, s), [id]);
  const [stop, setStop] = useState(false);
  const job = loaded.data;
  usePolled(job?.state === "running" || !job ? loaded.reload : idle, 1000);
  const p = job?.progress;
  return (
    <>
      <Top crumbs={<><Link to={href(["bulk"])}>Bulk jobs</Link> / <h1 class="mono ell">{id}</h1></>}>
        {job?.state === "running" && session.may("operate") && <button type="button" class="btn danger" onClick={() => setStop(true)}>Stop…</button>}
      </Top>
      <div class="page scroll">
        {loaded.error && !job && <Fault error={loaded.error} retry={loaded.reload} />}
        {!job && !loaded.error && <Loading />}
        {job && p && (
          <>
            <div class="row wrap" data-job-state={job.state}><State job={job} /><b>{actionText(job)}</b><span class="soft">by {job.actor}, <Time at={job.created_at} />, took <Took from={job.created_at} to={job.closed_at} /></span></div>
            <p class="mono s">{job.query || "all runs"}{job.action.reason && <span class="soft"> “{job.action.reason}”</span>}</p>
            <div class="stats" role="status">
              <div>Done<b>{exact(p.done)}</b></div><div>Unchanged<b>{exact(p.skipped)}</b></div><div>Refused<b>{exact(p.failed)}</b></div>
            </div>
            <Card title="Refused">
              {!p.failures?.length ? <Empty title="Nothing was refused." /> : (
                <table>
                  <thead><tr><th class="w-run">Run</th><th>Reason</th></tr></thead>
                  <tbody>{p.failures.map((f) => <tr key={f.flow + f.run}><td class="two mono"><Link class="link" to={href(runPath(f.flow, f.run))}>{f.run}</Link><small>{f.flow}</small></td><td>{f.error}</td></tr>)}</tbody>
                </table>
              )}
            </Card>
          </>
        )}
      </div>
      {stop && <Confirm onClose={() => (setStop(false), loaded.reload())} act={{
        title: "Stop bulk job", verb: "Stop job", keep: "Let it run", danger: true, done: "Bulk job stopped",
        what: `It handles no further runs. What it did to ${exact(p?.done ?? 0)} runs stays.`, run: () => post(["bulk", id, "stop"]),
      }} />}
    </>
  );
}

const idle = () => undefined;
