// Raw is a JSON value as text, as it was written.
export class Raw {
  constructor(readonly text: string) {}
}
