// askKey names a wait in the address of the inbox.
export const askKey = (w: { flow: string; run: string; id: string }) => [w.flow, w.run, w.id].map(encodeURIComponent).join("/");

// isMine reports whether a wait asks a principal: everybody, the principal by name, or one of its groups.
export const isMine = (w: { audience?: string[] }, who: { name: string; groups?: string[]; login: string }): boolean =>
  who.login === "none" || !w.audience?.length || w.audience.some((a) => a === who.name || !!who.groups?.includes(a));
