// Streams, as a window follows them: by the hub, which all windows of the browser share.
import { parseReply } from "../lib/json";
import { address, ApiError, headers, root } from "./client";
import { Hub, type Asked, type State, type Told } from "./hub";
import type { Event, Query, StreamPath } from "./operations";

export type Connection =
  | Exclude<State, { state: "failed" }>
  | { state: "hidden" } // the page is not looked at
  | { state: "failed"; error: Error };

interface Options<P extends StreamPath> {
  parameters?: Query<"GET", P>;
  onItem(item: Event<P>): void;
  onConnection?(c: Connection): void;
}

// maxSilence is how long a connection may be silent until another one is made: until the server answers, and between
// two of the comments that it sends while nothing happens.
let maxSilence = 15_000;

// expectHeartbeat sets the time between two of those comments, in milliseconds.
export function expectHeartbeat(ms: number) {
  maxSilence = Math.max(3 * ms, 1000);
}

// version is that of what windows and hub say to each other.
const version = 1;

const aliveEvery = 15_000;

// Window is the end of this window.
class Window {
  private readonly port: MessagePort;
  private readonly told = new Map<number, (t: Told) => void>();
  private next = 1;

  constructor() {
    this.port = shared() ?? alone();
    this.port.onmessage = (e: MessageEvent<Told>) => this.told.get(e.data.id)?.(e.data);
    this.port.start();
    setInterval(() => document.hidden || this.ask({ alive: true }), aliveEvery);
  }

  private ask(a: Asked) {
    this.port.postMessage(a);
  }

  open(a: Omit<Extract<Asked, { open: number }>, "open">, told: (t: Told) => void): () => void {
    const id = this.next++;
    this.told.set(id, told);
    this.ask({ open: id, ...a });
    return () => {
      if (this.told.delete(id)) this.ask({ close: id });
    };
  }
}

function shared(): MessagePort | undefined {
  try {
    return new SharedWorker(new URL("assets/stream.js", root), { name: `flowfabric ${version}` }).port;
  } catch {
    return undefined; // some browsers of phones have no shared workers
  }
}

function alone(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  new Hub().connect(port1);
  return port2;
}

let here: Window | undefined;

// follow reads a stream until the returned function is called, the stream ends, or a request is refused. A window that
// nobody sees follows nothing, and continues from where it was.
export function follow<const P extends StreamPath>(path: P, o: Options<P>): () => void {
  const mine = (here ??= new Window());
  let cursor = "";
  let close: (() => void) | undefined;
  let over = false;
  const tell = (t: Told) => {
    if ("data" in t) {
      if (t.cursor) cursor = t.cursor;
      return o.onItem(parseReply(t.data) as Event<P>);
    }
    over = t.state.state === "ended" || t.state.state === "failed";
    o.onConnection?.(t.state.state === "failed" ? { state: "failed", error: new ApiError(t.state.problem) } : t.state);
  };
  const open = () => {
    if (close || over) return;
    const url = new URL(address(path, o.parameters), root).href;
    close = mine.open({ url, headers: Object.fromEntries(new Headers(headers({}))), cursor, keep: path[0] !== "feed", silence: maxSilence }, tell);
  };
  const leave = () => {
    close?.();
    close = undefined;
  };
  const look = () => {
    if (!document.hidden) return open();
    if (!over) o.onConnection?.({ state: "hidden" });
    leave();
  };
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", leave);
  addEventListener("pageshow", look);
  look();
  return () => {
    leave();
    document.removeEventListener("visibilitychange", look);
    removeEventListener("pagehide", leave);
    removeEventListener("pageshow", look);
  };
}
