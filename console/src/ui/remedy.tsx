import type { Explanation } from "../api/types";
import { href, Link } from "../app/router";

// Remedy leads to where the console ends a wait, or shows what it waits for.
export function Remedy({ why: w }: { why: Explanation }) {
  const found = remedyOf(w);
  return found && <Link class="btn" to={found.to}>{found.label}</Link>;
}

function remedyOf(w: Explanation): { label: string; to: string } | undefined {
  switch (w.reason) {
    case "limit":
    case "rate_window":
      return { label: "Show the limit", to: href(w.subject ? ["limits", w.subject, ...(w.key ? [w.key] : [])] : ["limits"]) };
    case "budget":
      return { label: "Show the budget", to: href(["budgets"]) };
    case "lane_paused":
      return { label: "Show the lane", to: href(w.subject ? ["lanes", w.subject] : ["lanes"]) };
    case "activity_paused":
      return { label: "Show the pause", to: href(["lanes"]) };
    case "worker":
      return { label: "Show who is next", to: href(w.subject ? ["lanes", w.subject] : ["lanes"]) };
    case "unserved":
    case "unregistered":
    case "capability":
    case "worker_lost":
      return { label: "Show workers", to: href(["workers"]) };
    case "keeper_overdue":
      return { label: "Show keepers", to: href(["keepers"]) };
    default:
      return undefined;
  }
}
