import { get } from "../../api/client";
import type { Run, RunDetail } from "../../api/types";
import { useLoad } from "../../app/load";
import { href, Link, runPath } from "../../app/router";
import { useSession } from "../../app/session";
import { goDuration, span } from "../../lib/time";
import { Card, CopyButton, Fault, JsonText, Loading, Tags, ValueView } from "../../ui/basic";
import { Time, Took } from "../../ui/time";
import { Amount, keyOf, useSeen, type Point } from "../budgets/burndown";

interface Props { run: RunDetail; tags: Record<string, string> | undefined; seen: Map<string, Point[]> }

// Values shows input and result of the run, what is known about it, and what is left of its budgets.
export function Values({ run, tags, seen }: Props) {
  const session = useSession();
  const loaded = useLoad<RunDetail>(
    (s) => get(runPath(run.flow, run.run), { values: session.reads, nodes: 1, value_bytes: 1 << 20 }, s), [run.flow, run.run, run.closed_at ?? ""]);
  if (loaded.error) return <Fault error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data) return <Loading />;
  const { input, result } = loaded.data;
  return (
    <div class="scroll pad columns">
      <Card title="Input" side={input?.json && <CopyButton text={input.json.text} />}>
        <div class="pad"><ValueView value={input} label="Input" /></div>
      </Card>
      <Card title="Result" side={result?.json && <CopyButton text={result.json.text} />}>
        <div class="pad"><ValueView value={result} label="Result" /></div>
      </Card>
      <Card title="About the run"><div class="pad"><About run={run} tags={tags} /></div></Card>
      {run.budgets?.map((b) => (
        <Card key={keyOf(b)} title={<>Budget <code>{b.name}</code></>} note={b.run ? "of this run" : b.key ? `shared, key ${b.key}` : b.flow ? "of the flow" : "shared"}
          side={<Link class="link s" to={href(["budgets"], b.key ? { name: b.name, key: b.key } : {})}>All budgets</Link>}>
          <div class="pad gap" data-run-budget={b.name}>
            {b.amounts.map((a) => <Amount key={a.dimension} budget={b} amount={a} seen={seen.get(`${keyOf(b)}\n${a.dimension}`) ?? []} begun={b.run && run.created_at} ended={b.run && run.closed_at} />)}
          </div>
        </Card>
      ))}
      {run.memo && <Card title="Note"><div class="pad"><JsonText raw={run.memo} label="Note" /></div></Card>}
    </div>
  );
}

const About = ({ run, tags }: { run: RunDetail; tags: Record<string, string> | undefined }) => (
  <dl class="kv">
    <dt>Tags</dt><dd class="row wrap">{tags && Object.keys(tags).length ? <Tags tags={tags} /> : "none"}</dd>
    <dt>Created</dt><dd><Time at={run.created_at} />{run.started_by ? ` by ${run.started_by}` : ""}</dd>
    {run.starts_at && <><dt>Starts</dt><dd><Time at={run.starts_at} /></dd></>}
    {run.closed_at && <><dt>Ended</dt><dd><Time at={run.closed_at} />, after <Took from={run.began_at} to={run.closed_at} /></dd></>}
    {run.deadline_at && <><dt>Deadline</dt><dd><Time at={run.deadline_at} />{run.overdue ? `, passed ${span(goDuration(run.overdue))} ago` : ""}</dd></>}
    {run.finally_deadline_at && <><dt>Deadline of finally nodes</dt><dd><Time at={run.finally_deadline_at} /></dd></>}
    {run.schedule && <><dt>Schedule</dt><dd><Link class="link" to={href(["schedules", run.schedule])}>{run.schedule}</Link>, fire of <Time at={run.fire_at} /></dd></>}
    {run.key && <><dt>Key</dt><dd class="mono">{run.key}{run.queue_place ? `, place ${run.queue_place} of its queue` : ""}</dd></>}
    {run.forked_from && <><dt>Fork of</dt><dd><Link class="link mono" to={href(runPath(run.flow, run.forked_from))}>{run.forked_from}</Link>, {run.kept_nodes ?? 0} results kept</dd></>}
    {run.reruns ? <><dt>Reruns</dt><dd>{run.reruns}, the last at <Time at={run.last_rerun?.at} />{run.last_rerun?.by ? ` by ${run.last_rerun.by}` : ""}</dd></> : null}
  </dl>
);

// tagsOf reads the tags of a run, which the list of runs has.
export async function tagsOf({ flow, run, created_at: at }: RunDetail, signal: AbortSignal): Promise<Run["tags"]> {
  const until = new Date(Date.parse(at) + 1).toISOString();
  const page = await get(["runs"], { flow, created_from: new Date(at).toISOString(), created_before: until, children: true, limit: 100 }, signal);
  return page.items.find((r) => r.run === run)?.tags;
}

export function useTags(run: RunDetail | undefined): Run["tags"] {
  return useLoad<Run["tags"]>((s) => run ? tagsOf(run, s) : Promise.resolve(undefined), [run?.flow ?? "", run?.run ?? "", run?.created_at ?? ""]).data;
}

// useSpent keeps what was spent of the budgets of a run while its page is open.
export const useSpent = (run: RunDetail | undefined) => useSeen(run?.budgets);
