// The shared worker of all windows.
import { Hub } from "./hub";

const hub = new Hub();
(self as unknown as { onconnect(e: MessageEvent): void }).onconnect = (e) => hub.connect(e.ports[0]!);
