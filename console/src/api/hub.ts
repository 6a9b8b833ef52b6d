// Streams of server-sent events, for all windows of a browser together: a browser keeps six connections to a server
// without HTTP/2, so windows that look at the same thing share its stream. The hub runs in a shared worker, or in the page
// where a browser has none. Streams are read with fetch, since EventSource can send no token.
import type { Problem } from "./types";

// Asked is what a window asks of the hub.
export type Asked =
  | { open: number; url: string; headers: Record<string, string>; cursor: string; keep: boolean; silence: number }
  | { close: number }
  | { alive: true };

// State is that of a stream.
export type State =
  | { state: "connecting" }
  | { state: "open" }
  | { state: "stalled"; since: Date } // the server answers, its engine does not
  | { state: "lost"; since: Date; retryAt: Date }
  | { state: "ended" }
  | { state: "failed"; problem: Problem };

// Told is what the hub tells a window: the state of a stream, or an item of it as text.
export type Told = { id: number; state: State } | { id: number; cursor: string; data: string };

// most is how many streams are connected at a time. Further ones are read every few seconds, so that some of the six
// connections are free for requests.
const most = 3;

const pollEvery = 2_000;
const maxPause = 15_000;

// stalledAfter is the age of the last answer of the engine from which a stream counts as stalled, in milliseconds.
const stalledAfter = 3000;

// kept is how many items of a stream are there for windows that come later, and maxIdle how many streams without any
// window.
const kept = 20_000;
const maxIdle = 8;

// maxQuiet is how long a window may say nothing until it is taken for closed.
const maxQuiet = 60_000;

interface Listener { port: MessagePort; id: number }

export class Hub {
  private readonly streams = new Map<string, Shared>();
  private readonly ports = new Map<MessagePort, number>();

  constructor() {
    setInterval(() => {
      for (const [port, heard] of this.ports) if (Date.now() - heard > maxQuiet) this.leave(port);
    }, maxQuiet / 4);
  }

  connect(port: MessagePort) {
    port.onmessage = (e: MessageEvent<Asked>) => {
      const asked = e.data;
      this.ports.set(port, Date.now());
      if ("open" in asked) this.open(port, asked);
      else if ("close" in asked) this.close(port, asked.close);
    };
    port.start();
  }

  private open(port: MessagePort, asked: Extract<Asked, { open: number }>) {
    const key = JSON.stringify([asked.url, asked.headers]);
    let s = this.streams.get(key);
    if (!s) this.streams.set(key, (s = new Shared(asked.url, asked.headers, asked.keep, () => this.connected() < most)));
    s.silence = asked.silence;
    s.add({ port, id: asked.open }, asked.cursor);
  }

  private connected(): number {
    return [...this.streams.values()].filter((s) => s.streaming).length;
  }

  private close(port: MessagePort, id: number) {
    for (const s of this.streams.values()) s.drop((l) => l.port === port && l.id === id);
    this.clean();
  }

  private leave(port: MessagePort) {
    this.ports.delete(port);
    for (const s of this.streams.values()) s.drop((l) => l.port === port);
    this.clean();
  }

  private clean() {
    const idle = [...this.streams].filter(([, s]) => s.idle);
    for (const [key] of idle.slice(0, Math.max(0, idle.length - maxIdle))) this.streams.delete(key);
  }
}

// Refused is a request that the server refused.
class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.title);
  }
}

// Shared is a stream that windows share. It is read while one of them looks.
class Shared {
  streaming = false;
  silence = 15_000;
  private cursor = "";
  private readonly items: { cursor: string; data: string }[] = [];
  private readonly listeners = new Set<Listener>();
  private state: State = { state: "connecting" };
  private stop: AbortController | undefined;

  constructor(
    private readonly url: string,
    private readonly headers: Record<string, string>,
    private readonly keep: boolean,
    private readonly room: () => boolean,
  ) {}

  get idle() {
    return this.listeners.size === 0;
  }

  // add tells a window what there is after a cursor, and from then on what happens.
  add(l: Listener, after: string) {
    const at = after ? this.items.findLastIndex((i) => i.cursor === after) : -1;
    for (const item of this.items.slice(at + 1)) l.port.postMessage({ id: l.id, ...item } satisfies Told);
    this.listeners.add(l);
    if (!this.stop) this.state = { state: "connecting" }; // one that has ended may go on
    l.port.postMessage({ id: l.id, state: this.state } satisfies Told);
    if (!this.stop) void this.run((this.stop = new AbortController()));
  }

  drop(which: (l: Listener) => boolean) {
    for (const l of this.listeners) if (which(l)) this.listeners.delete(l);
    if (!this.idle || !this.stop) return;
    this.stop.abort();
    this.stop = undefined;
    this.streaming = false;
    this.state = { state: "connecting" };
  }

  private tell(state: State) {
    this.state = state;
    for (const l of this.listeners) l.port.postMessage({ id: l.id, state } satisfies Told);
  }

  private item(cursor: string, data: string) {
    if (cursor) this.cursor = cursor;
    if (this.keep) {
      this.items.push({ cursor, data });
      if (this.items.length > kept) this.items.splice(0, this.items.length - kept);
    }
    for (const l of this.listeners) l.port.postMessage({ id: l.id, cursor, data } satisfies Told);
  }

  // run reads the stream until nobody looks, it ends, or a request is refused. It connects again after a break, from where
  // it was.
  private async run(stop: AbortController) {
    let pause = 500;
    let lost: Date | undefined;
    const done = (state: State) => {
      this.tell(state);
      if (this.stop === stop) this.stop = undefined;
    };
    const open = () => {
      pause = 500;
      lost = undefined;
      if (!stop.signal.aborted && this.state.state !== "open") this.tell({ state: "open" });
    };
    while (!stop.signal.aborted) {
      const attempt = new AbortController();
      const give = () => attempt.abort();
      let timer: ReturnType<typeof setTimeout> | undefined;
      const heard = () => {
        clearTimeout(timer);
        timer = setTimeout(give, this.silence);
      };
      stop.signal.addEventListener("abort", give, { once: true });
      const stream = this.room();
      try {
        this.streaming = stream;
        heard();
        const over = stream ? await this.follow(attempt.signal, heard, open) : await this.page(attempt.signal, open);
        if (stop.signal.aborted) return;
        if (over) return done({ state: "ended" });
        if (!stream) {
          clearTimeout(timer);
          await wait(pollEvery, stop.signal);
          continue;
        }
      } catch (e) {
        if (stop.signal.aborted) return;
        if (e instanceof Refused && !e.problem.retryable && e.problem.status >= 400 && e.problem.status !== 502) {
          return done({ state: "failed", problem: e.problem });
        }
      } finally {
        give(); // a reader that is left keeps its connection
        clearTimeout(timer);
        stop.signal.removeEventListener("abort", give);
        if (this.stop === stop || !this.stop) this.streaming = false;
      }
      lost ??= new Date();
      this.tell({ state: "lost", since: lost, retryAt: new Date(Date.now() + pause) });
      await wait(pause, stop.signal);
      pause = Math.min(pause * 2, maxPause);
    }
  }

  private async request(accept: string, signal: AbortSignal, url = this.url, more: Record<string, string> = {}): Promise<Response> {
    const reply = await fetch(url, {
      headers: { ...this.headers, Accept: accept, ...more }, signal, credentials: "same-origin", cache: "no-store",
    });
    if (reply.ok) return reply;
    const text = await reply.text();
    let problem: Partial<Problem> = {};
    try {
      problem = JSON.parse(text) as Problem;
    } catch {
      // a proxy has answered
    }
    throw new Refused({
      type: "about:blank", code: "", title: reply.statusText, detail: "", retryable: reply.status >= 500, ...problem, status: reply.status,
    } as Problem);
  }

  // follow reads one connection and reports whether nothing follows.
  private async follow(signal: AbortSignal, heard: () => void, open: () => void): Promise<boolean> {
    const reply = await this.request("text/event-stream", signal, this.url, this.cursor ? { "Last-Event-ID": this.cursor } : {});
    open();
    const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      heard();
      const { value, done } = await reader.read();
      if (done) return false;
      rest += value;
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        if (this.take(rest.slice(0, end))) return true;
        rest = rest.slice(end + 2);
      }
    }
  }

  // engine handles the age of the last answer of the engine, in milliseconds.
  private engine(age: number) {
    if (age > stalledAfter) this.tell({ state: "stalled", since: new Date(Date.now() - age) });
    else if (this.state.state === "stalled") this.tell({ state: "open" });
  }

  // take handles an event and reports whether it is the last one.
  private take(text: string): boolean {
    let cursor = "", event = "", data = "";
    for (const line of text.split("\n")) {
      if (line.startsWith(": engine ")) this.engine(Number(line.slice(9)));
      else if (line.startsWith("id: ")) cursor = line.slice(4);
      else if (line.startsWith("event: ")) event = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (event === "end") return true;
    if (event === "problem") throw new Refused(JSON.parse(data) as Problem);
    if (data) this.item(cursor, data);
    return false;
  }

  // page reads what there is as pages of JSON, and reports whether nothing follows.
  private async page(signal: AbortSignal, open: () => void): Promise<boolean> {
    for (;;) {
      const url = new URL(this.url);
      url.searchParams.set("limit", "1000");
      if (this.cursor) url.searchParams.set("after", this.cursor);
      const reply = await this.request("application/json", signal, url.href);
      open();
      const text = await reply.text();
      const page = JSON.parse(text) as { items: unknown[]; next?: string; end?: boolean };
      page.items.forEach((item, i) => this.item(i === page.items.length - 1 ? page.next ?? "" : "", JSON.stringify(item)));
      if (page.end) return true;
      if (page.items.length < 1000) return false;
    }
  }
}

function wait(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    stop.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
}
