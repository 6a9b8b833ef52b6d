// Times are shown in the zone of the browser or in UTC, with the date unless it is today.

export type Zone = "utc" | "local";

const pad = (n: number) => String(n).padStart(2, "0");

interface Parts {
  year: number;
  month: number;
  day: number;
  clock: string;
}

function parts(at: Date, zone: Zone): Parts {
  return zone === "utc"
    ? {
        year: at.getUTCFullYear(), month: at.getUTCMonth(), day: at.getUTCDate(),
        clock: `${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}:${pad(at.getUTCSeconds())}`,
      }
    : {
        year: at.getFullYear(), month: at.getMonth(), day: at.getDate(),
        clock: `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`,
      };
}

const withZone = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" });

// zoneName returns the short name that a zone has at a time, such as CET.
export function zoneName(zone: Zone, at = new Date()): string {
  if (zone === "utc") return "UTC";
  return withZone.formatToParts(at).find((p) => p.type === "timeZoneName")?.value ?? "local";
}

// fromField returns the time that a field of type datetime-local has in a zone.
export const fromField = (text: string, zone: Zone) => new Date(zone === "utc" ? `${text}Z` : text);

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// clock returns the time of day, with the date in front of it unless it is that of now.
export function clock(at: Date, zone: Zone, now = new Date()): string {
  const a = parts(at, zone);
  const n = parts(now, zone);
  if (a.year === n.year && a.month === n.month && a.day === n.day) return a.clock;
  const date = `${a.day} ${months[a.month]}`;
  return `${date}${a.year === n.year ? "" : ` ${a.year}`} ${a.clock}`;
}

// full returns both zones and how long ago it was, for hovering.
export function full(at: Date, now = new Date()): string {
  const utc = at.toISOString().replace("T", " ").replace("Z", " UTC");
  const l = parts(at, "local");
  const local = `${l.year}-${pad(l.month + 1)}-${pad(l.day)} ${l.clock} ${zoneName("local", at)}`;
  return `${utc}\n${local}\n${relative(at, now)}`;
}

// relative returns "in 5 min" or "5 min ago".
export function relative(at: Date, now = new Date()): string {
  const ms = at.getTime() - now.getTime();
  return ms >= 0 ? `in ${span(ms)}` : `${span(-ms)} ago`;
}

// span returns a length of time with at most two units.
export function span(ms: number): string {
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return two(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 86_400) return two(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return two(Math.floor(s / 86_400), "d", Math.floor((s % 86_400) / 3600), "h");
}

const two = (a: number, unit: string, b: number, small: string) =>
  b === 0 ? `${a} ${unit}` : `${a} ${unit} ${pad(b)} ${small}`;

const units: Record<string, number> = { ns: 1e-6, us: 1e-3, "µs": 1e-3, ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

// goDuration returns the milliseconds of a duration such as "1h30m0s"; 0 for one that cannot be read.
export function goDuration(text: string | undefined): number {
  let ms = 0;
  for (const [, n, unit] of (text ?? "").matchAll(/([\d.]+)(ns|us|µs|ms|s|m|h)/g)) ms += Number(n) * units[unit!]!;
  return ms;
}

// short writes a duration of Go without its empty parts: 1h instead of 1h0m0s. One of zero is empty.
export function short(text: string | undefined): string {
  if (!text || goDuration(text) === 0) return "";
  return text.replace(/(\D)0s$/, "$1").replace(/(\D)0m$/, "$1");
}
