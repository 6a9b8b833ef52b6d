import { useEffect, useRef, useState } from "preact/hooks";
import { follow, type Connection } from "../../api/stream";
import type { Event, StreamPath } from "../../api/operations";
import type { Frame } from "../../api/types";
import { runPath, setQuery, useQuery } from "../../app/router";
import { useSession } from "../../app/session";
import { Empty, Hidden, Segmented } from "../../ui/basic";
import { Time } from "../../ui/time";
import type { RunData } from "./data";

interface Props { data: RunData; flow: string; run: string; node: string | undefined; onSelect(n: string): void }

// Logs shows what a node logged, or the frames that it emitted, as they come.
export function Logs({ data, flow, run, node, onSelect }: Props) {
  const session = useSession();
  const [what, setWhat] = useState<"logs" | "stream">("logs");
  const names = data.layout.data?.nodes.map((n) => n.node) ?? [...data.nodes.keys()];
  if (!session.reads) return <div class="pad"><Hidden /></div>;
  const attempt = Number(useQuery().get("attempt") ?? 0);
  const chosen = node ?? names.find((n) => data.nodes.get(n)?.state === "active") ?? names[0];
  return (
    <>
      <div class="bar-top row">
        <Segmented label="What to follow" value={what} onChange={(v) => setWhat(v)} options={[["logs", "Logs"], ["stream", "Stream"]] as const} />
        <label class="chip">
          <span class="sr">Node</span>
          <select name="log-node" value={chosen} onChange={(e) => onSelect(e.currentTarget.value)}>
            {names.slice(0, 1000).map((n) => <option key={n} value={n}>{n}</option>)}
          </select>
        </label>
        {attempt > 0 && <button type="button" class="chip on" onClick={() => setQuery({ attempt: undefined })}>attempt {attempt} ×</button>}
      </div>
      {chosen && (what === "logs"
        ? <LogLines key={chosen} flow={flow} run={run} node={chosen} attempt={attempt} />
        : <Stream key={chosen} flow={flow} run={run} node={chosen} attempt={attempt} />)}
    </>
  );
}

// NodeProps name a node and the attempt that is looked at; 0 is all of them.
interface NodeProps { flow: string; run: string; node: string; attempt: number }

const ofAttempt = <T extends { attempt: number }>(list: T[], attempt: number) => attempt ? list.filter((x) => x.attempt === attempt) : list;

// most is how many lines or frames are kept on the page.
const most = 5000;

// useFollowed gathers the items of a stream, at most four times a second.
function useFollowed<const P extends StreamPath>(path: P): { items: Event<P>[]; connection: Connection } {
  const [items, setItems] = useState<Event<P>[]>([]);
  const [connection, setConnection] = useState<Connection>({ state: "connecting" });
  useEffect(() => {
    let held: Event<P>[] = [];
    let timer = 0;
    const stop = follow(path, {
      onItem: (item) => {
        held.push(item);
        timer ||= window.setTimeout(() => {
          timer = 0;
          const more = held;
          held = [];
          setItems((old) => [...old, ...more].slice(-most));
        }, 60);
      },
      onConnection: setConnection,
    });
    return () => (stop(), clearTimeout(timer));
  }, [path.join("\n")]);
  return { items, connection };
}

// useTail keeps the newest in view until the reader scrolls up.
function useTail(n: number) {
  const box = useRef<HTMLDivElement>(null);
  const [away, setAway] = useState(false);
  const newest = () => box.current?.scrollTo({ top: box.current.scrollHeight });
  useEffect(() => {
    if (!away) newest();
  }, [n]);
  const onScroll = () => {
    const b = box.current!;
    setAway(b.scrollHeight - b.scrollTop - b.clientHeight > 40);
  };
  return { box, away, newest, onScroll };
}

const Followed = ({ connection, n, what }: { connection: Connection; n: number; what: string }) => {
  if (connection.state === "failed") return <p class="fault pad" role="alert">{connection.error.message}</p>;
  if (n === 0 && connection.state === "ended") return <Empty title={`The node has no ${what}.`} />;
  if (n === 0) return <Empty title={`No ${what} yet.`}><p>They appear here as they come.</p></Empty>;
  return null;
};

function LogLines({ flow, run, node, attempt }: NodeProps) {
  const { items: all, connection } = useFollowed([...runPath(flow, run), "nodes", node, "logs"]);
  const items = ofAttempt(all, attempt);
  const tail = useTail(items.length);
  return (
    <div class="scroll logs" ref={tail.box} onScroll={tail.onScroll} tabIndex={0} role="log" aria-label={`Logs of ${node}`}>
      <Followed connection={connection} n={items.length} what="log lines" />
      {items.map((l) => (
        <div key={l.cursor} class={`log l-${l.level.toLowerCase()}`}>
          <Time at={l.at} /><b>{l.level}</b><span class="muted">#{l.attempt}</span>
          <span class="lines">{l.message}{l.attrs && <code class="muted"> {l.attrs.text}</code>}{l.cut ? ` (${l.cut} further lines were not stored)` : ""}</span>
        </div>
      ))}
      {tail.away && <button type="button" class="newpill low" onClick={tail.newest}>Jump to newest</button>}
    </div>
  );
}

// Stream shows frames. Text that comes in pieces, as of a language model, is put together.
function Stream({ flow, run, node, attempt }: NodeProps) {
  const { items: all, connection } = useFollowed([...runPath(flow, run), "nodes", node, "stream"]);
  const items = ofAttempt(all, attempt);
  const tail = useTail(items.length);
  return (
    <div class="scroll logs" ref={tail.box} onScroll={tail.onScroll} tabIndex={0} role="log" aria-label={`Stream of ${node}`}>
      <Followed connection={connection} n={items.length} what="frames" />
      {blocks(items).map((b, i) => (
        <div key={i} class="frame-block">
          <p class="s muted"><Time at={b.at} /> {b.kind} #{b.attempt}</p>
          <div class="lines">{b.text}</div>
        </div>
      ))}
      {tail.away && <button type="button" class="newpill low" onClick={tail.newest}>Jump to newest</button>}
    </div>
  );
}

interface Block { at: string; kind: string; attempt: number; text: string; plain: boolean }

function blocks(frames: Frame[]): Block[] {
  const out: Block[] = [];
  for (const f of frames) {
    const plain = f.json?.text.startsWith('"') ?? false;
    const text = f.json ? (plain ? (JSON.parse(f.json.text) as string) : f.json.text) : f.data ?? "";
    const last = out[out.length - 1];
    if (plain && last?.plain && last.kind === f.kind && last.attempt === f.attempt) last.text += text;
    else out.push({ at: f.at, kind: f.kind, attempt: f.attempt, text, plain });
  }
  return out;
}
