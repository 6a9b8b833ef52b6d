// Why a node waits, in words for the people who read the console. The engine's own sentences are for programs, too: they
// name calls and give times in UTC.
import type { Explanation, Wait } from "../api/types";
import { join, plural } from "../lib/text";
import { clock, relative, zoneName, type Zone } from "../lib/time";

// sentence returns why a node waits, without the name of the node and without a full stop at its end.
export function sentence(w: Explanation, zone: Zone, wait?: Wait, now = new Date()): string {
  const until = w.until ? `${clock(new Date(w.until), zone, now)} ${zoneName(zone, new Date(w.until))}` : "";
  switch (w.reason) {
    case "signals":
    case "escalated": {
      const need = Math.max(1, w.need ?? 1);
      const missing = Math.max(1, need - (w.have ?? 0));
      const asked = wait?.audience?.length ? ` from ${join(wait.audience, "or")}` : "";
      const what = `needs ${need > 1 ? `${missing} more of ${plural(need, "answer")}` : "an answer"}${asked}`;
      if (w.reason === "escalated" || wait?.escalated) return `${what}. Its time is up, and it goes on waiting`;
      if (!until) return what;
      return `${what}. ${wait?.on_timeout === "escalate" ? "Escalates" : "Ends"} at ${until}, ${relative(new Date(w.until!), now)}`;
    }
    case "retry":
      return `attempt ${w.have ?? "?"} of ${w.need ?? "?"} begins at ${until}: ${(w.detail ?? "").split("\n")[0]}`;
    case "run_paused":
    case "lane_paused":
    case "activity_paused":
      return `${w.reason.replace("_paused", "")}${w.reason === "run_paused" ? "" : ` ${w.subject}`} is paused` +
        `${w.by ? ` by ${w.by}` : ""}${w.detail ? `: “${w.detail}”` : ""}`;
    case "capability":
      return `no worker offers ${join(w.names ?? [])}`;
    case "unserved":
    case "unregistered":
      return `no live worker serves ${w.subject}${w.key ? ` on lane ${w.key}` : ""}`;
    case "limit":
      return `limit ${w.subject} is full: ${w.have} of ${w.need} places taken`;
    default:
      return w.sentence.replace(/\.$/, "");
  }
}

// brief is the sentence for a row of a list: how long an answer has time, without the time of day.
export function brief(w: Explanation, zone: Zone, wait?: Wait, now = new Date()): string {
  if (w.reason !== "signals" || !w.until) return sentence(w, zone, wait, now);
  const { until: _late, ...rest } = w;
  const end = wait?.on_timeout === "escalate" ? "escalates" : "ends";
  return `${sentence(rest, zone, wait, now)}, ${end} ${relative(new Date(w.until), now)}`;
}

// remedies that name calls of programs say nothing to the readers of the console.
export const remedy = (w: Explanation): string => (/[a-z]\.[A-Z]|\w\(/.test(w.remedy ?? "") ? "" : w.remedy ?? "");
