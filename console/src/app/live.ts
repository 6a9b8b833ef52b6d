// The feed of all runs: one stream for a tab, which pages listen to.
import { useEffect, useRef, useState } from "preact/hooks";
import { follow, type Connection } from "../api/stream";
import type { FeedEvent } from "../api/types";

export type LiveState = Connection | { state: "paused"; missed: number };

type Listener = (events: FeedEvent[]) => void;

// batch is how long changes are gathered before they are shown, in milliseconds.
const batch = 250;

export class Live {
  state: LiveState = { state: "connecting" };
  private readonly changed = new EventTarget();
  private readonly listeners = new Set<Listener>();
  private held: FeedEvent[] = [];
  private timer = 0;
  private lastFlush = 0;
  private paused = false;
  private connection: Connection = { state: "connecting" };

  start(): () => void {
    let broken = true; // what the page has loaded may be older than the stream
    return follow(["feed"], {
      onItem: (e) => this.take(e),
      onConnection: (c) => {
        this.connection = c;
        if (c.state === "open" && broken) this.take(caughtUp); // what happened meanwhile is loaded again
        broken = c.state !== "open";
        if (!this.paused) this.set(c);
      },
    });
  }

  private set(state: LiveState) {
    this.state = state;
    this.changed.dispatchEvent(new Event("change"));
  }

  private take(e: FeedEvent) {
    this.held.push(e);
    if (this.paused) return this.set({ state: "paused", missed: this.held.length });
    if (this.timer) return;
    const due = Math.max(0, this.lastFlush + batch - Date.now());
    this.timer = window.setTimeout(() => this.flush(), due);
  }

  private flush() {
    this.timer = 0;
    this.lastFlush = Date.now();
    const events = this.held;
    this.held = [];
    if (events.length) for (const l of [...this.listeners]) l(events);
  }

  toggle() {
    this.paused = !this.paused;
    if (this.paused) return this.set({ state: "paused", missed: 0 });
    this.set(this.connection);
    this.flush();
  }

  listen(l: Listener): () => void {
    this.listeners.add(l);
    return () => this.listeners.delete(l);
  }

  onChange(f: () => void): () => void {
    this.changed.addEventListener("change", f);
    return () => this.changed.removeEventListener("change", f);
  }
}

// caughtUp stands for all that happened while the stream was broken.
const caughtUp: FeedEvent = { cursor: "", kind: "caught_up", flow: "", run: "", at: "" };

export const live = new Live();

export function useLive(): LiveState {
  const [state, set] = useState(live.state);
  useEffect(() => {
    const read = () => set(live.state);
    read(); // it may have changed since the page was drawn
    return live.onChange(read);
  }, []);
  return state;
}

// useFeed calls the function with what happens to runs.
export function useFeed(f: Listener) {
  const latest = useRef(f);
  latest.current = f;
  useEffect(() => live.listen((events) => latest.current(events)), []);
}
