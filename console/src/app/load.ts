import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Loaded<T> {
  data: T | undefined;
  error: Error | undefined;
  loading: boolean;
  // at is when the data were read.
  at: Date | undefined;
  reload(): void;
  set(change: (old: T | undefined) => T | undefined): void;
}

// useLoad reads data, and again when a dependency changes. The old data stay until the new ones are there; those of
// another key do not.
export function useLoad<T>(read: (signal: AbortSignal) => Promise<T>, dependencies: unknown[]): Loaded<T> {
  const key = JSON.stringify(dependencies);
  const [state, setState] = useState<{ key: string; data?: T; error?: Error; loading: boolean; at?: Date }>({
    key, loading: true,
  });
  const run = useRef(read);
  run.current = read;
  const running = useRef<AbortController | undefined>(undefined);
  const again = useRef(false);

  const load = useCallback(() => {
    if (running.current) {
      again.current = true;
      return;
    }
    const stop = new AbortController();
    running.current = stop;
    setState((s) => (s.key === key ? { ...s, loading: true } : { key, loading: true }));
    const finish = (change: { data?: T; error?: Error; at?: Date }) => {
      if (stop.signal.aborted) return;
      running.current = undefined;
      setState((s) => ({ ...s, key, loading: false, ...change }));
      if (again.current) {
        again.current = false;
        load();
      }
    };
    run.current(stop.signal).then(
      (data) => {
        const change: { data: T; at: Date; error?: Error } = { data, at: new Date() };
        setState((s) => {
          const { error: _gone, ...rest } = s;
          return rest;
        });
        finish(change);
      },
      (error: Error) => finish({ error }),
    );
  }, [key]);

  useEffect(() => {
    load();
    return () => {
      running.current?.abort();
      running.current = undefined;
      again.current = false;
    };
  }, [load]);

  const set = useCallback((change: (old: T | undefined) => T | undefined) => {
    setState((s) => {
      const data = change(s.data);
      return data === undefined ? s : { ...s, data };
    });
  }, []);
  const mine = state.key === key;
  return {
    data: mine ? state.data : undefined, error: mine ? state.error : undefined,
    loading: mine ? state.loading : true, at: mine ? state.at : undefined, reload: load, set,
  };
}
