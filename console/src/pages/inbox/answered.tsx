import { useEffect, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { AuditEntry } from "../../api/types";
import { useFeed } from "../../app/live";
import { href, Link, runPath } from "../../app/router";
import { useSession, type Session } from "../../app/session";
import { Top } from "../../app/shell";
import { Card, Empty, Fault, Loading } from "../../ui/basic";
import { Time } from "../../ui/time";

const pageSize = 50;

// answeredPage is the address of the list of answers.
export const answeredPage = () => href(["inbox"], { answered: "1" });

// seesAnswered reports whether the reader may see the audit log, which has the answers.
export const seesAnswered = (s: Session) => s.may("view") && !s.server.principal.flows;

// Answer is an entry of the audit log about an answer, in its parts.
interface Answer { entry: AuditEntry; flow: string; run: string; node: string; answer: string; how: string; failure: string | undefined }

// answersOf reads entries of the audit log. An answer that was not taken has a second entry, which says why.
function answersOf(entries: readonly AuditEntry[]): Answer[] {
  const failures = new Map(entries.filter((e) => e.failure).map((e) => [e.id, e.failure]));
  return entries.filter((e) => !e.failure).map((entry) => {
    const [, flow = "", run = "", node = ""] = /^([^/]*)\/(.*)\/([^/]*)$/s.exec(entry.name ?? "") ?? [];
    const [, answer = "", how = ""] = /^(.*?), (through .*)$/s.exec(entry.detail ?? "") ?? [];
    return { entry, flow, run, node, answer, how, failure: failures.get(entry.id) };
  });
}

// AnsweredPage lists the latest answers to asks, by the audit log.
export function AnsweredPage() {
  const session = useSession();
  const [list, setList] = useState<AuditEntry[]>();
  const [next, setNext] = useState<string>();
  const [further, setFurther] = useState(false);
  const [error, setError] = useState<Error>();
  const load = (cursor?: string) => get(["audit"], { action: "answer_wait", limit: pageSize, cursor }).then(
    (p) => (setList((old) => cursor ? [...(old ?? []), ...p.items] : p.items), setNext(p.next), setError(undefined)), setError);
  useEffect(() => void load(), []);
  useFeed((events) => void (!further && events.some((e) => e.kind === "signalled" || e.kind === "caught_up") && load()));
  const answers = answersOf(list ?? []);
  return (
    <>
      <Top crumbs={<><Link to={href(["inbox"])}>Inbox</Link> / <h1>Answered</h1></>} />
      <div class="page scroll">
        {error && <Fault error={error} retry={() => void load()} />}
        {!list && !error && <Loading />}
        {list && answers.length === 0 && (
          <Empty title="Nobody has answered yet.">
            <p>Answers to asks are listed here, by whichever way they came. <Link class="link" to={href(["inbox"])}>Show what is open</Link></p>
          </Empty>
        )}
        {answers.length > 0 && (
          <Card title="Answers" note="the latest first">
            <table>
              <thead><tr><th class="w-time c2">Time</th><th>Who</th><th>Answer</th><th>Run and node</th></tr></thead>
              <tbody>
                {answers.map((a) => (
                  <tr key={a.entry.id} data-answer={a.run}>
                    <td class="c2"><Time at={a.entry.at} /></td>
                    <td class="two" title={`${a.entry.actor}, ${a.how}`}>
                      {a.entry.actor}{a.entry.actor === session.server.principal.name && <span class="muted"> (you)</span>}
                      <small>{a.how}</small>
                    </td>
                    <td class="two" title={a.failure ?? a.answer}>
                      {a.answer || a.entry.detail}
                      {a.failure && <small class="c-bad">{a.failure}</small>}
                      <small><span class="mobile"><Time at={a.entry.at} /></span></small>
                    </td>
                    <td class="two" title={a.entry.name}>
                      {a.run ? <Link class="link mono" to={href(runPath(a.flow, a.run), { node: a.node })}>{a.run}</Link> : <span class="mono">{a.entry.name}</span>}
                      {a.run && <small>{a.flow}, {a.node}</small>}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            {next && <div class="more"><button type="button" class="btn" onClick={() => (setFurther(true), void load(next))}>Show {pageSize} more</button></div>}
          </Card>
        )}
      </div>
    </>
  );
}
