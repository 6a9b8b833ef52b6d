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

class Reader {
  private at = 0;
  constructor(private readonly text: string) {}

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
    this.at++;
    for (this.space(); this.text[this.at] !== "}"; this.space()) {
      const key = JSON.parse(this.skip()) as string;
      this.space();
      this.at++; // colon
      this.space();
      out[key] = payloadKeys.has(key) ? new Raw(this.skip()) : this.value();
      this.space();
      if (this.text[this.at] === ",") this.at++;
    }
    this.at++;
    return out;
  }

  private list(): unknown[] {
    const out: unknown[] = [];
    this.at++;
    for (this.space(); this.text[this.at] !== "]"; this.space()) {
      out.push(this.value());
      this.space();
      if (this.text[this.at] === ",") this.at++;
    }
    this.at++;
    return out;
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
