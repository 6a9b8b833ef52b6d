import { render } from "preact";
import { App } from "./app/app";
import { startKeys } from "./app/keys";
import { startLabels } from "./app/labels";
import { applyTheme } from "./app/prefs";

applyTheme();
startKeys();
startLabels(document.getElementById("app")!);
render(<App />, document.getElementById("app")!);
