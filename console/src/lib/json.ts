// JSON values of users are shown as they were written: with their digits, order of keys and spelling. Raw keeps the text
// of such a value; everything else of a reply is parsed as usual.
import { rawKeys } from "../api/types";
import { Raw } from "./raw";

const payloadKeys = new Set(rawKeys);

const hasPayload = new RegExp(`"(${rawKeys.join("|")})":`);

// parseReply parses a reply of the API.
export function parseReply(text: string): unknown {
  return hasPayload.test(text) ? new Reader(text).document() : JSON.parse(text);
}

// members returns the names of an object's properties with the text of their values, in their order; undefined for text
// that is no object.
export function members(text: string): [string, string][] | undefined {
  return new Reader(text).members();
}

// items returns the text of each item of a list; undefined for text that is no list.
export function items(text: string): string[] | undefined {
  return new Reader(text).items();
}

class Reader {
  private at = 0;
  constructor(private readonly text: string) {}

  members(): [string, string][] | undefined {
    this.space();
    if (this.text[this.at] !== "{") return undefined;
    const out: [string, string][] = [];
    this.each("}", () => {
      const name = JSON.parse(this.skip()) as string;
      this.colon();
      out.push([name, this.skip()]);
    });
    return out;
  }

  items(): string[] | undefined {
    this.space();
    if (this.text[this.at] !== "[") return undefined;
    const out: string[] = [];
    this.each("]", () => out.push(this.skip()));
    return out;
  }

  document(): unknown {
    return this.value();
  }

  private value(): unknown {
    this.space();
    switch (this.text[this.at]) {
      case "{":
        return this.object();
      case "[":
        return this.list();
      default:
        return JSON.parse(this.skip());
    }
  }

  private object(): Record<string, unknown> {
    const out: Record<string, unknown> = {};
    this.each("}", () => {
      const key = JSON.parse(this.skip()) as string;
      this.colon();
      out[key] = payloadKeys.has(key) ? new Raw(this.skip()) : this.value();
    });
    return out;
  }

  private list(): unknown[] {
    const out: unknown[] = [];
    this.each("]", () => out.push(this.value()));
    return out;
  }

  // each calls the function at each part of an object or list, and passes over its end.
  private each(end: string, part: () => void) {
    this.at++;
    for (this.space(); this.text[this.at] !== end; this.space()) {
      part();
      this.space();
      if (this.text[this.at] === ",") this.at++;
    }
    this.at++;
  }

  private colon() {
    this.space();
    this.at++;
    this.space();
  }

  // skip passes over a value and returns its text.
  private skip(): string {
    const from = this.at;
    let depth = 0;
    do {
      const c = this.text[this.at];
      if (c === undefined) throw new SyntaxError("the reply ends within a value");
      if (c === '"') this.string();
      else if (c === "{" || c === "[") (depth++, this.at++);
      else if (c === "}" || c === "]") (depth--, this.at++);
      else if (depth > 0 || from !== this.at) this.at++;
      else this.scalar();
    } while (depth > 0);
    return this.text.slice(from, this.at);
  }

  private scalar() {
    while (this.at < this.text.length && !",]} \n\t\r:".includes(this.text[this.at]!)) this.at++;
  }

  private string() {
    for (this.at++; this.text[this.at] !== '"'; this.at++) {
      if (this.text[this.at] === "\\") this.at++;
      if (this.at >= this.text.length) throw new SyntaxError("the reply ends within a string");
    }
    this.at++;
  }

  private space() {
    while (" \n\t\r".includes(this.text[this.at] ?? "x")) this.at++;
  }
}

// Token is a piece of JSON text for display.
export interface Token {
  kind: "key" | "string" | "number" | "word" | "mark";
  text: string;
}

// pretty formats JSON text with one value per line, without changing any value. Lines are indented by two spaces.
export function pretty(text: string): string {
  let out = "";
  let depth = 0;
  for (const t of tokens(text)) {
    const c = t.text;
    if (c === "{" || c === "[") out += c + "\n" + "  ".repeat(++depth);
    else if (c === "}" || c === "]") out = closed(out, c, --depth);
    else if (c === ",") out += ",\n" + "  ".repeat(depth);
    else if (c === ":") out += ": ";
    else out += c;
  }
  return out;
}

// closed ends a group; an empty one stays on its line.
function closed(out: string, mark: string, depth: number): string {
  const body = out.trimEnd();
  const open = mark === "}" ? "{" : "[";
  return body.endsWith(open) ? body + mark : body + "\n" + "  ".repeat(Math.max(0, depth)) + mark;
}

// tokens splits JSON text, and yields what is left of text that was cut.
export function* tokens(text: string): Generator<Token> {
  const pattern = /"(?:[^"\\]|\\.)*"?|[{}[\]:,]|[^\s{}[\]:,"]+/gs;
  for (const [piece] of text.matchAll(pattern)) {
    const c = piece[0]!;
    if (c === '"') yield { kind: "string", text: piece };
    else if ("{}[]:,".includes(c)) yield { kind: "mark", text: piece };
    else yield { kind: /[-0-9]/.test(c) ? "number" : "word", text: piece };
  }
}
