// A format that is made once writes a number in a hundredth of the time that toLocaleString takes.
const whole = new Intl.NumberFormat("en-US");

export const exact = (n: number) => whole.format(n);

// count writes a number with separators, rounded above 10,000.
export function count(n: number): string {
  if (n < 10_000) return exact(n);
  if (n < 1_000_000) return `${(n / 1000).toFixed(1).replace(/\.0$/, "")} k`;
  return `${(n / 1_000_000).toFixed(1).replace(/\.0$/, "")} M`;
}

// plural writes a count with its noun.
export const plural = (n: number, one: string, many = one + "s") => `${exact(n)} ${n === 1 ? one : many}`;

// middle cuts a text in its middle, so that both ends can be told apart.
export function middle(text: string, most: number): string {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) / 2);
  return text.slice(0, head) + "…" + text.slice(text.length - (most - 1 - head));
}

// join lists names as a sentence does.
export function join(names: string[], last = "and"): string {
  if (names.length < 2) return names.join("");
  return `${names.slice(0, -1).join(", ")} ${last} ${names[names.length - 1]}`;
}

export const firstLine = (text: string) => text.split("\n", 1)[0] ?? "";

// words writes the name of a kind such as flow_success as words.
export const words = (name: string) => name.replaceAll("_", " ");

// size writes a number of bytes.
export function size(bytes: number): string {
  if (bytes < 0) return "unknown size";
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1 << 20) return `${(bytes / 1024).toFixed(1)} KiB`;
  return `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}
