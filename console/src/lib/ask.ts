// askKey names a wait in the address of the inbox.
export const askKey = (w: { flow: string; run: string; id: string }) => [w.flow, w.run, w.id].map(encodeURIComponent).join("/");
