import { useEffect, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { FlowDetail, Flow, Page, RunDetail, Value, Wait } from "../../api/types";
import { useKeys } from "../../app/keys";
import { useFeed } from "../../app/live";
import { useLoad } from "../../app/load";
import { href, Link, runPath, setQuery, useQuery } from "../../app/router";
import { useSession } from "../../app/session";
import { Top } from "../../app/shell";
import { exact, plural } from "../../lib/text";
import { Card, Empty, Fault, Loading } from "../../ui/basic";
import { ValueCard } from "../../ui/fields";
import { schemaOf } from "../../lib/schema";
import { Icon } from "../../ui/icon";
import { StateLabel, states } from "../../ui/state";
import { Ago, Time, Took, useNow } from "../../ui/time";
import { askKey, isMine } from "../../lib/ask";
import { Answers } from "../run/panel";
import { AnswerForm, asks } from "./answer";
import { AnsweredPage, answeredPage, seesAnswered } from "./answered";
import { PathToAsk, ThenRuns, useAskPath } from "./path";

const hour = 3_600_000;
const soon = 4 * hour;
const largest = 1 << 18; // bytes of an input that is read whole

// InboxPage lists what waits for people, and answers it; or it lists what was answered.
export function InboxPage() {
  return useQuery().has("answered") ? <AnsweredPage /> : <OpenAsks />;
}

function OpenAsks() {
  const session = useSession();
  const query = useQuery();
  const [text, setText] = useState("");
  const loaded = useLoad<Page<Wait>>((s) => get(["waits"], { limit: 500 }, s), []);
  useFeed((events) => events.some((e) => e.node || e.kind.startsWith("flow_") || e.kind === "caught_up") && loaded.reload());
  const flows = useLoad<Page<Flow> | undefined>((s) => session.reads ? get(["flows"], {}, s) : Promise.resolve(undefined), []);
  // published reports whether a flow is in the catalogue; undefined until that is known.
  const published = (w: Wait) => flows.data?.items.some((f) => f.name === w.flow) ?? (session.reads && !flows.error ? undefined : false);
  const mine = query.get("of") === "mine";
  const everything = loaded.data?.items ?? [];
  const all = mine ? everything.filter((w) => isMine(w, session.server.principal)) : everything;
  const list = all.filter((w) =>
    [titleOf(w), w.question, w.flow, w.run, ...(w.audience ?? [])].join(" ").toLowerCase().includes(text.toLowerCase()));
  const groups = grouped(list);
  const order = groups.flatMap(([, items]) => items);
  const asked = query.get("ask");
  const wide = matchMedia("(min-width: 641px)").matches;
  const [kept, setKept] = useState<Wait>();
  // What was chosen stays, also once it is answered: by the address, or else the ask that came first.
  const chosen = asked ?? (wide && kept ? askKey(kept) : undefined);
  const found = all.find((w) => askKey(w) === chosen);
  const current = found ?? (kept && askKey(kept) === chosen ? kept : wide && !asked ? order[0] : undefined);
  useEffect(() => current && setKept(current), [current]);
  const move = (step: number) => {
    const at = order.findIndex((w) => current && w.id === current.id && w.run === current.run);
    const to = order[Math.min(order.length - 1, Math.max(0, at + step))];
    if (to) setQuery({ ask: askKey(to) });
  };
  useKeys("Inbox", [
    { keys: "j", does: "next ask", run: () => move(1) },
    { keys: "k", does: "previous ask", run: () => move(-1) },
    { keys: "Escape", does: "back to the list", run: () => setQuery({ ask: undefined }) },
  ]);
  const late = list.filter((w) => w.escalated).length;
  return (
    <>
      <Top crumbs={<><h1>Inbox</h1> <span class="desk">{plural(list.length, "open ask")}{late ? `, ${late} late` : ""}</span></>}>
        {seesAnswered(session) && <Link class="btn quiet desk" to={answeredPage()}>Answered</Link>}
      </Top>
      <div class={`inbox${asked ? " asked" : ""}`}>
        <section class="list" aria-label="What waits">
          <div class="pad">
            <div class="search">
              <Icon name="search" />
              <input data-search type="search" name="q" aria-label="Search what waits" placeholder="Search what waits" value={text}
                onInput={(e) => setText(e.currentTarget.value)} />
            </div>
            {session.server.principal.login !== "none" && (
              <span class="seg" role="group" aria-label="Which asks">
                <button type="button" aria-pressed={!mine} class={mine ? "" : "on"} onClick={() => setQuery({ of: undefined })}>All</button>
                <button type="button" aria-pressed={mine} class={mine ? "on" : ""} onClick={() => setQuery({ of: "mine" })}>Mine</button>
              </span>
            )}
          </div>
          {loaded.error && !loaded.data && <Fault error={loaded.error} retry={loaded.reload} />}
          {!loaded.data && !loaded.error && <Loading />}
          {loaded.data && list.length === 0 && (
            <Empty title={text ? "Nothing matches." : mine ? "Nothing waits for you." : "Nothing waits for anybody."}>
              <p>Flows ask here when they need an answer: an approval, a choice, a signal from outside.</p>
            </Empty>
          )}
          {groups.map(([name, items]) => (
            <div key={name} role="group" aria-label={name}>
              <h2 class="grp">{name} <span class="muted">{items.length}</span></h2>
              {items.map((w) => <AskRow key={askKey(w)} wait={w} on={w === current} />)}
            </div>
          ))}
          {loaded.data && seesAnswered(session) && (
            <p class="pad muted s">Answered ones are under <Link class="link" to={answeredPage()}>Answered</Link>. They never mix with what is open.</p>
          )}
        </section>
        {current ? <Ask key={askKey(current)} wait={current} open={all.includes(current)} published={published(current)} onDone={loaded.reload} onSkip={() => move(1)} mayAnswer={session.may("approve")} />
          : <div class="answer">{loaded.data && order.length > 0 && <Empty title="Choose an ask." />}{asked && loaded.data && <Empty title="This ask is answered, or its run has ended."><Link class="btn" to={href(["inbox"])}>Show what is open</Link></Empty>}</div>}
      </div>
    </>
  );
}

const titleOf = (w: Wait) => w.title || w.question || (asks(w) ? `Answer ${w.node}` : `Signal for ${w.node}`);

function grouped(list: Wait[]): [string, Wait[]][] {
  const due = (w: Wait) => (w.timeout_at ? Date.parse(w.timeout_at) : Infinity);
  const by = (f: (w: Wait) => boolean) => list.filter(f).sort((a, b) => due(a) - due(b) || (a.opened_at ?? "").localeCompare(b.opened_at ?? ""));
  const near = (w: Wait) => due(w) - Date.now() < soon;
  const all: [string, Wait[]][] = [
    ["Escalated", by((w) => !!w.escalated)], ["Due within 4 hours", by((w) => !w.escalated && near(w))],
    ["Later", by((w) => !w.escalated && !near(w) && asks(w))], ["Signals from outside", by((w) => !w.escalated && !near(w) && !asks(w))],
  ];
  return all.filter(([, items]) => items.length > 0);
}

function AskRow({ wait, on }: { wait: Wait; on: boolean }) {
  return (
    <Link to={href(["inbox"], { ask: askKey(wait) })} class={`ask${on ? " on" : ""}`} aria-current={on ? "true" : undefined} data-ask={wait.run}>
      <span class={wait.escalated ? "c-bad" : "c-person"}><Icon name={wait.escalated ? "late" : "person"} /></span>
      <h3>{titleOf(wait)}</h3>
      <Due wait={wait} />
      <p class="mono">{wait.flow} · {wait.run}</p>
      <p>{wait.received} of {wait.needed} answered{wait.escalated ? " · escalated" : wait.timeout_at ? ` · ${timeoutWord(wait)}` : ""}</p>
    </Link>
  );
}

// Due says how long an ask has until its timeout, in amber for the last hour.
function Due({ wait }: { wait: Wait }) {
  const now = useNow(!!wait.timeout_at);
  const near = !!wait.timeout_at && Date.parse(wait.timeout_at) - now.getTime() < hour;
  return <span class={`due ${wait.escalated ? "c-bad strong" : near ? "c-held strong" : "muted"}`}>{wait.timeout_at && <Ago at={wait.timeout_at} />}</span>;
}

const timeoutWord = (w: Wait) => w.on_timeout === "escalate" ? "escalates then" : `${w.on_timeout || "fails"} then`;

interface AskProps { wait: Wait; open: boolean; published: boolean | undefined; mayAnswer: boolean; onDone(): void; onSkip(): void }

// Ask is the question with the form of its answer.
function Ask({ wait: listed, open, published, mayAnswer, onDone, onSkip }: AskProps) {
  const session = useSession();
  // The list has open waits only: this one is read for itself, so that it is right once it has ended.
  const latest = useLoad<Wait | undefined>(
    (s) => get([...runPath(listed.flow, listed.run), "waits"], { closed: true }, s).then((p) => p.items.find((w) => w.id === listed.id)),
    [listed.flow, listed.run, listed.id]);
  useFeed((events) => void (events.some((e) => e.run === listed.run || e.kind === "caught_up") && latest.reload()));
  const wait = latest.data ?? listed;
  const [done, setDone] = useState<string>();
  const run = useLoad<RunDetail>((s) => get(runPath(wait.flow, wait.run), { values: session.reads }, s), [wait.flow, wait.run]);
  const path = useAskPath(wait, run.data);
  const ofNode = run.data?.nodes.find((n) => n.node === wait.node)?.input;
  const named = !!run.data && !ofNode && published; // the fields have the names of the flow's schema
  const flow = useFlow(named ? wait.flow : undefined);
  const about = useWhole(wait, ofNode ?? run.data?.input, !!ofNode);
  return (
    <article class="answer">
      <div class="wide0">
        <button type="button" class="btn quiet mobile" onClick={() => setQuery({ ask: undefined })}>Back to the list</button>
        <div class="row wrap">
          <StateLabel state={wait.escalated ? states.late : asks(wait) ? states.person : states.signal} pill />
          <span class="s soft">open for <Took from={wait.opened_at} />{wait.timeout_at && wait.state !== "closed" && <> · {wait.on_timeout === "escalate" ? "escalates" : "ends"} <Time at={wait.timeout_at} /></>}</span>
        </div>
        <h2 class="question">{titleOf(wait)}</h2>
        {wait.question && wait.title && <p class="lines">{wait.question}</p>}
        <p class="soft">
          Run <Link class="link mono" to={href(runPath(wait.flow, wait.run), { node: wait.node })}>{wait.run}</Link> of {wait.flow} waits at <code class="strong">{wait.node}</code>.
          {wait.state !== "closed" && wait.needed > 1 && ` ${neededWord(wait)}`}
        </p>
      </div>
      <div class="stack">
        <ValueCard title="What it is about" note={ofNode ? "input of the node" : "input of the run"} value={about}
          schema={schemaOf(flow.data?.input_schema)}
          loading={!run.error && (!run.data || named === undefined || named && !flow.data && !flow.error)} />
        {open && !done && mayAnswer ? (
          <AnswerForm card wait={wait} onDone={(text) => (setDone(text), run.reload(), latest.reload(), onDone())} onSkip={onSkip} />
        ) : (
          <Card title="Your answer">
            <div class="pad">
              {done ? <p class="row c-ok" role="status" data-answered><Icon name="ok" /> {done}</p>
                : !open ? <p data-answered>Somebody else has answered, nothing more is needed.</p>
                : <p class="muted">Your role does not include answering.</p>}
            </div>
          </Card>
        )}
      </div>
      <div class="stack">
        <div class="card panelish"><Answers wait={wait} /></div>
        {wait.state !== "closed" && <div class="card pad">
          <h3>If nobody answers</h3>
          <p>{wait.timeout_at ? <>At <Time at={wait.timeout_at} /> it {wait.on_timeout === "escalate" ? "is escalated and goes on waiting" : `ends: ${wait.on_timeout ?? "the node fails"}`}.</> : "It waits until somebody does."}</p>
        </div>}
        {path && <ThenRuns path={path} />}
      </div>
      {path && <PathToAsk wait={wait} path={path} />}
    </article>
  );
}

// neededWord says who has to answer before the wait ends.
function neededWord(w: Wait): string {
  const left = Math.max(0, w.needed - w.received);
  const more = w.received > 0 ? " more" : "";
  const noun = w.distinct ? (left === 1 ? "person" : w.received > 0 ? "people" : "different people") : left === 1 ? "answer" : "answers";
  const none = w.decisive?.length ? ` One ${w.decisive.join(" or ")} ends it at once.` : "";
  return `${exact(left)}${more} ${noun} ${w.distinct ? (left === 1 ? "has to answer" : "have to answer") : left === 1 ? "is needed" : "are needed"}.${none}`;
}

// useFlow reads a flow from the catalogue.
const useFlow = (name: string | undefined) =>
  useLoad<FlowDetail | undefined>((s) => (name ? get(["flows", name], {}, s) : Promise.resolve(undefined)), [name]);

// useWhole reads the whole of an input whose beginning is there, unless it is large.
function useWhole(wait: Wait, value: Value | undefined, ofNode: boolean): Value | undefined {
  const cut = !!value?.truncated && value.size <= largest;
  const path = runPath(wait.flow, wait.run);
  const read = (s: AbortSignal): Promise<{ input?: Value } | undefined> =>
    !cut ? Promise.resolve(undefined) : ofNode ? get([...path, "nodes", wait.node], { values: true }, s)
      : get(path, { values: true, nodes: 1, value_bytes: largest }, s);
  return useLoad(read, [wait.flow, wait.run, wait.node, cut]).data?.input ?? value;
}
