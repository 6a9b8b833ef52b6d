import { render } from "preact";
import { App } from "./app/app";
import { startKeys } from "./app/keys";
import { applyTheme } from "./app/prefs";

applyTheme();
startKeys();
render(<App />, document.getElementById("app")!);
