import { useEffect } from "preact/hooks";

// usePolled reads something that the feed does not tell of, again every few seconds while the page is visible.
export function usePolled(reload: () => void, every = 5000) {
  useEffect(() => {
    const timer = setInterval(() => document.hidden || reload(), every);
    return () => clearInterval(timer);
  }, [reload, every]);
}
