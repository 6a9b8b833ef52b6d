import { useEffect, useState } from "preact/hooks";
import { usePrefs } from "../app/prefs";
import { clock, full, relative, span } from "../lib/time";

const ticks = new Set<() => void>();
let timer = 0;

// useNow returns the time, again each second while the page is visible.
export function useNow(on = true): Date {
  const [now, set] = useState(() => new Date());
  useEffect(() => {
    if (!on) return;
    const tick = () => set(new Date());
    ticks.add(tick);
    if (!timer) timer = window.setInterval(() => document.hidden || ticks.forEach((t) => t()), 1000);
    return () => {
      ticks.delete(tick);
      if (ticks.size === 0) (clearInterval(timer), (timer = 0));
    };
  }, [on]);
  return now;
}

// Time shows a time of day in the chosen zone; hovering shows both zones and how long ago it was.
export function Time({ at }: { at: string | undefined }) {
  const { zone } = usePrefs();
  if (!at) return <span class="muted">–</span>;
  const d = new Date(at);
  return (
    <time dateTime={at} title={full(d)}>
      {clock(d, zone)}
    </time>
  );
}

// Ago shows how far away a time is.
export function Ago({ at }: { at: string | undefined }) {
  const now = useNow(!!at);
  if (!at) return <span class="muted">–</span>;
  const d = new Date(at);
  return (
    <time dateTime={at} title={full(d, now)}>
      {relative(d, now)}
    </time>
  );
}

// Took shows how long something took, or has taken until now.
export function Took({ from, to }: { from: string | undefined; to?: string | undefined }) {
  const now = useNow(!!from && !to);
  if (!from) return <span class="muted">–</span>;
  return <span>{span((to ? new Date(to) : now).getTime() - new Date(from).getTime())}</span>;
}
