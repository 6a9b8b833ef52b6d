import { Component, createElement, type ComponentChild, type FunctionComponent } from "preact";

// memo renders a component again only if one of its properties is another one. Objects of states are compared by what
// they show.
export function memo<P extends object>(render: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>) {
      return !same(this.props, next);
    }
    override render(): ComponentChild {
      return createElement(render as FunctionComponent<object>, this.props);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}

function same(a: object, b: object): boolean {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  for (const k of keys) {
    const x = (a as Record<string, unknown>)[k];
    const y = (b as Record<string, unknown>)[k];
    if (x === y || typeof x === "function") continue;
    if (k !== "drawn" || JSON.stringify(x) !== JSON.stringify(y)) return false;
  }
  return true;
}
