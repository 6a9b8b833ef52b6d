// Streams of server-sent events. They are read with fetch, since EventSource can send no token.
import { parseReply } from "../lib/json";
import { address, ApiError, failure, headers } from "./client";
import type { Event, Query, StreamPath } from "./operations";
import type { Problem } from "./types";

export type Connection =
  | { state: "connecting" }
  | { state: "open" }
  | { state: "hidden" } // the page is not looked at
  | { state: "lost"; since: Date; retryAt: Date }
  | { state: "ended" }
  | { state: "failed"; error: Error };

interface Options<P extends StreamPath> {
  parameters?: Query<"GET", P>;
  onItem(item: Event<P>): void;
  onConnection?(c: Connection): void;
}

const maxPause = 15_000;

// maxSilence is how long a connection may be silent until another one is made: until the server answers, and between
// two of the comments that it sends while nothing happens.
let maxSilence = 15_000;

// expectHeartbeat sets the time between two of those comments, in milliseconds.
export function expectHeartbeat(ms: number) {
  maxSilence = Math.max(3 * ms, 1000);
}

// follow reads a stream until the returned function is called, the stream ends, or a request is refused. It connects
// again after a break, from where it was. A hidden page has no connection: a browser keeps six to a server without
// HTTP/2, for all its pages.
export function follow<const P extends StreamPath>(path: P, o: Options<P>): () => void {
  const stopping = new AbortController();
  void new Follower<P>(path, o, stopping.signal).run();
  return () => stopping.abort();
}

// isShown waits until the page is visible, or until the signal.
function isShown(stop: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const look = () => {
      if (document.hidden && !stop.aborted) return;
      document.removeEventListener("visibilitychange", look);
      stop.removeEventListener("abort", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    stop.addEventListener("abort", look);
    look();
  });
}

class Follower<P extends StreamPath> {
  private cursor = "";
  private pause = 500;
  private lostSince: Date | undefined;

  constructor(
    private readonly path: P,
    private readonly o: Options<P>,
    private readonly stop: AbortSignal,
  ) {}

  async run() {
    this.tell({ state: "connecting" });
    while (!this.stop.aborted) {
      if (document.hidden) this.tell({ state: "hidden" });
      await isShown(this.stop);
      try {
        if (await this.read()) return this.tell({ state: "ended" });
      } catch (e) {
        if (this.stop.aborted) return;
        if (e instanceof ApiError && !e.problem.retryable && e.status >= 400 && e.status !== 502) {
          return this.tell({ state: "failed", error: e });
        }
      }
      if (this.stop.aborted || document.hidden) continue;
      this.lostSince ??= new Date();
      this.tell({ state: "lost", since: this.lostSince, retryAt: new Date(Date.now() + this.pause) });
      await this.wait(this.pause);
      this.pause = Math.min(this.pause * 2, maxPause);
    }
  }

  private tell(c: Connection) {
    if (!this.stop.aborted) this.o.onConnection?.(c);
  }

  private wait(ms: number): Promise<void> {
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.stop.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
    });
  }

  // read reads one connection and reports whether nothing follows. It gives the connection up when it is silent for too
  // long or nobody looks.
  private async read(): Promise<boolean> {
    if (this.stop.aborted) return false;
    const attempt = new AbortController();
    const give = () => attempt.abort();
    const look = () => document.hidden && give();
    let silence = 0;
    const heard = () => {
      clearTimeout(silence);
      silence = window.setTimeout(give, maxSilence);
    };
    this.stop.addEventListener("abort", give, { once: true });
    document.addEventListener("visibilitychange", look);
    try {
      heard();
      return await this.readUntil(attempt.signal, heard);
    } finally {
      give(); // a reader that is left keeps its connection
      clearTimeout(silence);
      this.stop.removeEventListener("abort", give);
      document.removeEventListener("visibilitychange", look);
    }
  }

  private async readUntil(signal: AbortSignal, heard: () => void): Promise<boolean> {
    const more: Record<string, string> = { Accept: "text/event-stream" };
    if (this.cursor) more["Last-Event-ID"] = this.cursor;
    const reply = await fetch(address(this.path, this.o.parameters), {
      headers: headers(more), signal, credentials: "same-origin", cache: "no-store",
    });
    if (!reply.ok) throw await failure(reply);
    this.pause = 500;
    this.lostSince = undefined;
    this.tell({ state: "open" });
    const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      heard();
      const { value, done } = await reader.read();
      if (done) return false;
      rest += value;
      for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
        const over = this.take(rest.slice(0, end));
        rest = rest.slice(end + 2);
        if (over) return true;
      }
    }
  }

  // take handles an event and reports whether it is the last one.
  private take(text: string): boolean {
    let event = "";
    let data = "";
    for (const line of text.split("\n")) {
      if (line.startsWith("id: ")) this.cursor = line.slice(4);
      else if (line.startsWith("event: ")) event = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (event === "end") return true;
    if (event === "problem") throw new ApiError(JSON.parse(data) as Problem);
    if (data && !this.stop.aborted) this.o.onItem(parseReply(data) as Event<P>);
    return false;
  }
}
