package browsertest

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

//go:embed testdata/axe.min.js
var axe string

// No page has a finding of axe-core, in either theme. A page is opened once: with the other theme, it is the same document
// in other colours, so the rules about colours are checked again, and no others.
func TestAccessibility(t *testing.T) {
	p := newPlace(t, "embedded")
	p.furnish(t)
	w := open(t, p.url)
	for _, page := range pages() {
		w.goTo(page.path)
		w.see(page.seen)
		w.settle()
		w.audit(page.name)
	}
	w.goTo("runs/claims.assess/CLM-20931")
	w.see(`[data-node="review"]`)
	w.click("#actions")
	w.audit("menu", ".menu")
	w.press("Cancel run…")
	w.see("dialog[open]")
	w.audit("dialog")
	w.press("Keep running")
	w.gone("dialog")
	w.click("#actions")
	w.press("Signal…")
	w.see("dialog[open]")
	w.audit("dialog with a form")
	w.goTo("schedules/nightly")
	w.press("Edit…")
	w.see(`dialog [data-field="/pages"]`)
	w.audit("dialog with a schedule")
}

// audit runs axe-core in both themes. Its code comes by the protocol of the browser, which the policy of the page does not
// concern.
func (w *window) audit(name string, scope ...string) {
	w.t.Helper()
	w.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[any](axe+"; 1"))
		return err
	}))
	root := strings.Join(append(scope, "body")[:1], "")
	findings, err := chromedp.Run(w.ctx, chromedp.Evaluate[string](`(async () => {
		const html = document.documentElement, before = html.dataset.theme;
		const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
		const colours = axe.getRules(["cat.color"]).filter((r) => r.tags.some((t) => tags.includes(t))).map((r) => r.ruleId);
		const found = [];
		for (const [theme, only] of [["light", tags], ["dark", { type: "rule", values: colours }]]) {
			html.dataset.theme = theme;
			const r = await axe.run(document.querySelector("`+root+`"), {
				rules: {"label-content-name-mismatch": {enabled: false}}, // an experimental one: names say more than drawings
				runOnly: only, resultTypes: ["violations"],
			});
			if (theme === "dark" && r.passes.length + r.violations.length + r.incomplete.length === 0) found.push("no colours were checked");
			found.push(...r.violations.map((v) => theme + ": " + v.id + ": " + v.help + ": " +
				v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + " | " + n.failureSummary).join(" || ")));
		}
		if (before) html.dataset.theme = before; else delete html.dataset.theme;
		return JSON.stringify(found);
	})()`, chromedp.EvalAwaitPromise))
	require.NoError(w.t, err)
	var list []string
	require.NoError(w.t, json.Unmarshal([]byte(findings), &list))
	for _, finding := range list {
		w.t.Errorf("page %s: %s", name, finding)
	}
}

// An answer that does not fit its schema gets an error at its field; the inbox empties as answers come.
func TestInbox(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		close(p.bank)
		close(p.handed)
		run := p.start(t, "CLM-1")
		await(t, run.RunRef, "review", "suspended")
		w, other := open(t, p.url), open(t, p.url)
		other.goTo("inbox")
		other.see(`[data-field="/amount"]`)
		w.goTo("inbox")
		w.see(`.nav a[href$="/inbox"] .n.hot`)
		w.shows("Approve the settlement")
		w.shows("1 answer is missing")
		w.see(`[data-field="/amount"]`)
		w.await(`[...document.querySelectorAll(".path b")].map((b) => b.textContent).slice(-2).join() === "review,settle"`)
		w.await(`document.querySelector(".path li.on b").textContent === "review"`)
		w.shows("Then runs")
		w.fill("/amount", "many")
		w.press("Send answer")
		w.see(`.fault`)
		w.answer("fine")
		w.shows("The run continues")
		other.shows("Somebody else has answered")
		w.gone(`.nav a[href$="/inbox"] .n.hot`)
		result, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "paid 18420", result)
	})
}

// A run is started by a form that is made of the schema, and again with the same values.
func TestStart(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		w := open(t, p.url)
		w.goTo("flows")
		w.see(`tr[data-flow="claims.assess"]`)
		w.goTo("flows/claims.assess/start")
		w.see(`[data-field="/claim"]`)
		w.fill("/claim", "CLM-7")
		w.fill("/amount", "12345678901234567890.10")
		w.fill("/pages", "2")
		w.fill("/parts", "x")
		w.press("Start the run")
		w.see(`.fault`)
		w.fill("/parts", "3")
		w.press("Add remarks")
		w.fill("/remarks/0", "two\ndoors")
		w.fill("id", "CLM-7")
		w.press("Add a tag")
		w.fill("tag_name", "claims.tenant")
		w.fill("tag_value", "delta & sons, EU: north")
		w.press("Start the run")
		w.see(`.runhead`)
		w.await(`document.querySelector(".toast a")?.textContent === "CLM-7"`)
		w.goTo("runs/claims.assess/CLM-7?tab=data")
		w.shows(`"amount": 12345678901234567890.10`)
		w.goTo("flows/claims.assess/start?like=CLM-7")
		w.see(`[data-field="/claim"]`)
		require.Equal(t, "12345678901234567890.10", evaluate[string](w, `document.querySelector('[data-field="/amount"]').value`))
		require.Equal(t, []string{"claims.kind", "vehicle", "claims.tenant", "delta & sons, EU: north"},
			evaluate[[]string](w, `[...document.querySelectorAll("[data-tag] input")].map((i) => i.value)`))
		w.fill("id", "CLM-8")
		w.press("Start the run")
		w.see(`.runhead`)
		for run, err := range p.client.Runs(t.Context(), runtime.RunQuery{Flow: "claims.assess"}) {
			require.NoError(t, err)
			require.Equal(t, map[string]string{"claims.kind": "vehicle", "claims.tenant": "delta & sons, EU: north"}, run.Tags, run.Run)
		}
	})
}

// Schedules, lanes, limits, budgets and workers are seen and changed.
func TestCapacity(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.furnish(t)
		w := open(t, p.url)
		w.goTo("schedules/nightly")
		w.shows("Next times")
		w.confirm("Pause…", "Pause schedule")
		w.shows("Paused since")
		w.confirm("Resume…", "Resume schedule")
		w.confirm("Trigger now…", "Trigger now")
		w.shows("triggered")
		w.await(`[...document.querySelectorAll(".toast a")].some((a) => a.pathname.includes("/runs/claims.assess/" + encodeURIComponent(a.textContent)))`)

		w.goTo("lanes/default")
		w.confirm("Pause lane…", "Pause lane")
		w.press("Resume lane…")
		w.see("dialog[open]")
		w.press("Resume lane")
		w.gone("dialog")

		w.goTo("limits/parts-api")
		w.see(`.places`)
		w.press("Change…")
		w.see("dialog[open]")
		w.fill("at_once", "41")
		w.press("Set limit")
		w.shows("of 41 at once")

		w.goTo("budgets")
		w.click(`.card:has([data-budget="models"]) .btn`)
		w.see("dialog[open]")
		w.fill("hard-tokens", "2000000")
		w.press("Set budget")
		w.shows("of 2,000,000 spent")

		w.goTo("keepers")
		w.see(`[data-keepers]`)
		w.click(`details summary`)
		w.see(`tr[data-task]`)
		w.press("Run…")
		w.see("dialog[open]")
		w.press("Run task")
		w.shows("done, lag")

		w.goTo("workers")
		w.see(`tr[data-worker="adjuster"]`)
		w.shows("No worker takes")
		w.confirm("Drain…", "Drain worker")
		w.shows("Draining")
		w.goTo("audit")
		w.see(`tr[data-action]`)
		w.shows("anonymous")
	})
}

// The history of a schedule shows the state of each run that it started, and the list the state of its last run.
func TestScheduleHistoryShowsStates(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		act := activity.New("rates.load", func(_ context.Context, in claim) (string, error) {
			if in.Claim == "fail" {
				return "", activity.NonRetryable(errors.New("no rates today"))
			}
			return in.Claim, nil
		})
		f := flow.New[claim, string]("rates")
		flow.Return(f, flow.Node(f, "load", act, f.Input()))
		def, err := f.Build()
		require.NoError(t, err)
		p.work(t, act)
		for _, name := range []string{"fail", "work"} {
			_, err = runtime.Schedule(t.Context(), p.client, name, def, claim{Claim: name}, runtime.ScheduleConfig{Cron: "30 2 * * *"})
			require.NoError(t, err)
			_, err = p.client.Schedule(name).Trigger(t.Context())
			require.NoError(t, err)
		}
		w := open(t, p.url)
		w.goTo("schedules")
		w.see(`tr[data-schedule=fail] td:nth-child(5) .c-bad`)
		w.see(`tr[data-schedule=work] td:nth-child(5) .c-ok`)
		w.goTo("schedules/fail")
		w.see(`[data-fire=started] .c-bad`)
		w.await(`document.querySelector("[data-fire]").textContent === "Failed"`)
		w.fits("schedule with a failed run")
		w.goTo("schedules/work")
		w.see(`[data-fire=started] .c-ok`)
	})
}

// confirm presses a button that opens a dialog, and confirms it.
func (w *window) confirm(button, verb string) {
	w.t.Helper()
	w.press(button)
	w.see("dialog[open]")
	w.press(verb)
	w.gone("dialog")
}

// Pages do not offer actions that a role does not allow, and hide payloads without the right.
func TestRoles(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		const admin = "secret-of-the-admin"
		p := start(func(c *server.Config) { c.Tokens, c.AdminToken = true, admin })
		p.settled(t, "CLM-1")
		w := open(t, p.url)
		w.tolerate() // the browser notes that the server refused the first request
		w.goTo("runs/claims.assess/CLM-1?node=review")
		w.see(`[name=token]`)
		w.fill("token", admin)
		w.press("Sign in")
		w.see(`#actions`)

		viewer := open(t, p.url)
		viewer.tolerate()
		viewer.goTo("settings")
		viewer.see(`[name=token]`)
		viewer.fill("token", p.viewer(t, admin))
		viewer.press("Sign in")
		viewer.shows("viewer")
		viewer.goTo("runs/claims.assess/CLM-1?node=extract")
		viewer.see(`.panel`)
		viewer.shows("Hidden. Your role does not include payloads.")
		for _, gone := range []string{"#actions", "table.runs .pick"} {
			require.Zero(t, evaluate[int](viewer, fmt.Sprintf(`document.querySelectorAll(%q).length`, gone)))
		}
		viewer.goTo("inbox")
		viewer.shows("Your role does not include answering.")
		viewer.goTo("runs")
		viewer.see(`tr[data-run="CLM-1"]`)
		require.Zero(t, evaluate[int](viewer, `document.querySelectorAll("table.runs input").length`))
	})
}

// viewer makes a token that may only look.
func (p *place) viewer(t *testing.T, admin string) string {
	t.Helper()
	c, err := httpclient.New(p.url, httpclient.Config{Token: admin})
	require.NoError(t, err)
	made, err := c.CreateToken(t.Context(), api.CreateTokenInput{Name: "looker", Role: api.Viewer})
	require.NoError(t, err)
	return made.Text
}

func TestReadOnly(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start(func(c *server.Config) { c.ReadOnly = true })
		p.settled(t, "CLM-1")
		w := open(t, p.url)
		w.goTo("runs/claims.assess/CLM-1?node=review")
		w.see(`.panel`)
		w.shows("Read-only: actions are off on this console.")
		require.Zero(t, evaluate[int](w, `document.querySelectorAll("#actions, .panel .btn.danger, .why .btn.primary").length`))
	})
}

// An open page shows that its server is unavailable, and continues when the server is back.
func TestServerRestarts(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM-1")
		front := newFront(t, p.url)
		w := open(t, front.url)
		w.goTo("runs")
		w.see(`[data-live=open]`)
		w.see(`tr[data-run="CLM-1"]`)
		w.tolerate()
		front.away.Store(true)
		p.server.Close()
		w.see(`[data-live=lost]`)
		w.shows("No connection since")
		require.NoError(t, p.client.Run("claims.assess", "CLM-1").Cancel(t.Context(), ""))
		p.serve(t)
		front.point(t, p.url)
		front.away.Store(false)
		w.see(`[data-live=open]`)
		w.await(`document.querySelector('tr[data-run="CLM-1"] .st').textContent === "Cancelled"`)
	})
}

// A page notices that its connection has become silent, and makes another one.
func TestSilentConnection(t *testing.T) {
	p := newPlace(t, "embedded", func(c *server.Config) { c.Timeouts.Heartbeat = 200 * time.Millisecond })
	p.settled(t, "CLM-1")
	front := newFront(t, p.url)
	w := open(t, front.url)
	w.goTo("runs")
	w.see(`[data-live=open]`)
	w.see(`tr[data-run="CLM-1"]`)
	w.tolerate()
	front.away.Store(true)
	front.mute()
	w.see(`[data-live=lost]`)
	front.away.Store(false)
	w.see(`[data-live=open]`)
}

// front is a proxy in front of a server that may be away.
type front struct {
	url    string
	away   atomic.Bool
	behind atomic.Pointer[url.URL]
	// replies counts the replies. Those up to muted pass nothing on.
	replies, muted atomic.Int64
}

// mute makes the connections that are open silent.
func (f *front) mute() { f.muted.Store(f.replies.Load()) }

// reply is a reply that passes nothing on once it is muted.
type reply struct {
	http.ResponseWriter
	front  *front
	number int64
}

func (r *reply) Write(b []byte) (int, error) {
	if r.number <= r.front.muted.Load() {
		return len(b), nil
	}
	return r.ResponseWriter.Write(b)
}

func (r *reply) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func newFront(t *testing.T, behind string) *front {
	t.Helper()
	f := &front{}
	f.point(t, behind)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		to := *f.behind.Load()
		r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
	}}
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.away.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(&reply{w, f, f.replies.Add(1)}, r)
	}))
	t.Cleanup(func() { listener.CloseClientConnections(); listener.Close() })
	f.url = listener.URL + "/a/b/"
	return f
}

func (f *front) point(t *testing.T, behind string) {
	t.Helper()
	u, err := url.Parse(behind)
	require.NoError(t, err)
	f.behind.Store(u)
}

// Keys lead everywhere, and are listed.
func TestKeys(t *testing.T) {
	p := newPlace(t, "embedded")
	w := open(t, p.url)
	w.goTo("runs")
	w.see(`[data-live=open]`)
	w.key("?")
	w.see("dialog[open]")
	w.shows("UTC or local times")
	w.key("\x1b")
	w.gone("dialog")
	w.key("gf")
	w.see(`tr[data-flow="claims.assess"]`)
	w.key("gi")
	w.shows("Nothing waits for anybody.")
	w.key("/")
	w.await(`document.activeElement.name === "q"`)
}
