import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { root } from "../api/client";

// Place is where the reader is: the parts of the path below the mount, decoded, and the query.
export interface Place {
  path: string[];
  query: URLSearchParams;
}

const changed = new EventTarget();

function here(): Place {
  const path = location.pathname.slice(root.pathname.length);
  return {
    path: path.split("/").filter(Boolean).map(decodeURIComponent),
    query: new URLSearchParams(location.search),
  };
}

// href returns the address of a page.
export function href(path: readonly string[], query?: Record<string, string | undefined> | URLSearchParams): string {
  const url = new URL(path.map(encodeURIComponent).join("/") || ".", root);
  const entries = query instanceof URLSearchParams ? [...query] : Object.entries(query ?? {});
  for (const [name, value] of entries) if (value) url.searchParams.append(name, value);
  return url.href;
}

export function go(to: string) {
  history.pushState(null, "", to);
  changed.dispatchEvent(new Event("change"));
}

export function replace(to: string) {
  history.replaceState(null, "", to);
  changed.dispatchEvent(new Event("change"));
}

// setQuery changes parameters of the present page. Empty ones are removed.
export function setQuery(changes: Record<string, string | string[] | undefined>, push = false) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const v of Array.isArray(value) ? value : [value]) if (v) query.append(name, v);
  }
  const text = query.toString();
  const to = location.pathname + (text ? `?${text}` : "");
  (push ? go : replace)(to);
}

export function usePlace(): Place {
  const [place, set] = useState(here);
  useEffect(() => {
    const update = () => set(here());
    changed.addEventListener("change", update);
    addEventListener("popstate", update);
    return () => {
      changed.removeEventListener("change", update);
      removeEventListener("popstate", update);
    };
  }, []);
  return place;
}

// useQuery returns the parameters of the present page.
export function useQuery(): URLSearchParams {
  const place = usePlace();
  return useMemo(() => place.query, [place]);
}

type LinkProps = { to: string; children: ComponentChildren; class?: string } & Omit<
  JSX.IntrinsicElements["a"], "href" | "class"
>;

// Link goes to a page without loading the document again.
export function Link({ to, children, onClick, ...rest }: LinkProps) {
  const click = (e: MouseEvent & { currentTarget: HTMLAnchorElement }) => {
    (onClick as ((e: MouseEvent) => void) | undefined)?.(e);
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    e.preventDefault();
    go(to);
  };
  return (
    <a {...(rest as object)} href={to} onClick={click as never}>
      {children}
    </a>
  );
}

export const runPath = (flow: string, run: string) => ["runs", flow, run] as const;
