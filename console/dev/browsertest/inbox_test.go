package browsertest

import (
	"encoding/json"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// releases is a flow with a single waitpoint, for an input of any shape, within 45 minutes.
func releases(t *testing.T) *flow.Definition[json.RawMessage, json.RawMessage] {
	t.Helper()
	f := flow.New[json.RawMessage, json.RawMessage]("release.ship")
	flow.Return(f, flow.Waitpoint[json.RawMessage](f, "go-live", activity.Title("Go live with app 4.18.1?"),
		activity.Signals("approve", "reject"), activity.Timeout(45*time.Minute, activity.FailOnTimeout)))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// asks starts a run of releases, which then waits for an answer.
func (p *place) asks(t *testing.T, id, input string) *runtime.Run[json.RawMessage] {
	t.Helper()
	run, err := runtime.Start(t.Context(), p.client, releases(t), json.RawMessage(input), runtime.WithID(id))
	require.NoError(t, err)
	await(t, run.RunRef, "go-live", "suspended")
	return run
}

// about returns the fields of an input in the inbox: their names and values, without fields of groups.
func (w *window) about() map[string]string {
	w.t.Helper()
	w.see(".fields")
	return evaluate[map[string]string](w, `Object.fromEntries([...document.querySelectorAll(".fields dt")].map((name) =>
		[name.textContent, name.nextSibling]).filter(([, value]) => !value.querySelector("dl"))
		.map(([name, value]) => [name, value.textContent]))`)
}

// The inbox shows the input of a waitpoint as fields with the digits, the order and the words of its JSON, and on
// demand as JSON.
func TestInboxFields(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM-1")
		p.asks(t, "app", `{"build": 12345678901234567890.10, "app name": "The <b>shop</b>", "beta": false, "signed": true,
			"owner": null, "channels": ["web", "ios"], "sizes": [1.50, 2e400], "none": [], "nothing": {}, "blank": "",
			"steps": ["copy, then check", "switch"], "page": "https://example.com/a?b=c", "notes": "one\ntwo",
			"a": {"b": {"c": {"d": 1.0}}}, "constructor": "x", "build": 7}`)
		p.asks(t, "list", `[1.50, 2]`)
		p.asks(t, "long", `{"first": 1, "text": "`+strings.Repeat("word ", 4000)+`", "last": 2.50}`)
		w := open(t, p.url)

		w.goTo("inbox?ask=release.ship")
		w.click(`[data-ask="app"]`)
		fields := w.about()
		require.Equal(t, map[string]string{
			"app name": "The <b>shop</b>", "beta": "no", "signed": "yes", "owner": "none", "channels": "web, ios",
			"sizes": "1.50, 2e400", "none": "empty", "nothing": "empty", "blank": "empty", "steps": "2 items",
			"page": "https://example.com/a?b=c", "notes": "one\ntwo", "c": "{\n  \"d\": 1.0\n}\n", "constructor": "x", "build": "7",
		}, fields)
		w.await(`[...document.querySelectorAll(".fields > dd")].some((d) => d.textContent === "12345678901234567890.10")`)
		require.Zero(t, evaluate[int](w, `document.querySelectorAll(".fields a").length`), "addresses are text")
		w.press("2 items")
		w.shows(`"copy, then check"`)
		w.audit("fields")
		w.press("JSON")
		w.gone(".fields")
		w.shows(`"build": 12345678901234567890.10`)
		w.press("Fields")
		w.see(".fields")

		w.click(`[data-ask="list"]`)
		w.await(`document.querySelector(".answer .json")?.textContent.replace(/\s/g, "") === "[1.50,2]"`)
		w.gone(".fields")
		w.click(`[data-ask="long"]`)
		require.Equal(t, "2.50", w.about()["last"], "the whole input is read")

		w.click(`[data-ask="CLM-1"]`)
		w.await(`[...document.querySelectorAll(".fields dt")].some((d) => d.textContent === "Amount")`)
		require.Equal(t, map[string]string{"Claim": "CLM-1", "Amount": "18420", "Pages": "4", "Parts": "12"}, w.about())
	})
}

// The description of a field is shown with its value, for its unit for example, and a time in the zone of the reader.
func TestInboxDescribesFields(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		type account struct {
			Limit int `json:"limit" jsonschema:"in cents per day"`
		}
		type payout struct {
			Amount  int64     `json:"amount" jsonschema:"in cents"`
			Due     time.Time `json:"due"`
			Account account   `json:"account"`
			Note    string    `json:"note"`
		}
		p := start()
		f := flow.New[payout, bool]("payout")
		flow.Return(f, flow.Waitpoint[bool](f, "allow", activity.Title("Pay out?")))
		def, err := f.Build()
		require.NoError(t, err)
		require.NoError(t, p.client.Publish(t.Context(), runtime.Publication{Flow: def}))
		due := time.Date(2021, 3, 4, 5, 6, 7, 0, time.UTC)
		run, err := runtime.Start(t.Context(), p.client, def, payout{1234500, due, account{5000}, "x"}, runtime.WithID("p-1"))
		require.NoError(t, err)
		await(t, run.RunRef, "allow", "suspended")
		w := open(t, p.url)
		w.goTo("inbox?ask=payout")
		w.click(`[data-ask="p-1"]`)
		w.await(`[...document.querySelectorAll(".fields dt")].some((d) => d.textContent === "Amount")`)
		require.Equal(t, map[string]string{
			"Amount": "1234500in cents", "Due": "4 Mar 2021 05:06:07", "Limit": "5000in cents per day", "Note": "x",
		}, w.about())
		require.Equal(t, "2021-03-04T05:06:07Z", evaluate[string](w, `document.querySelector(".fields time").dateTime`))
		w.fits("input with descriptions")
	})
}

// A choice is answered with the number that was chosen, whatever its digits are; so are constants, defaults and values
// that were typed as JSON before the form is shown.
func TestNumbersOfASchema(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		schema := `{"type": "object", "required": ["account", "one", "rate", "note"], "properties": {
			"account": {"enum": [9007199254740993, 9007199254740992, 616581622363398142, 1.50, "a \"b\""]},
			"one": {"type": "integer", "enum": [9007199254740993, 9007199254740992]},
			"rate": {"const": 12345678901234567890.10}, "note": {"type": "string", "default": "none"},
			"more": {"type": "array", "items": {"type": "integer", "default": 9007199254740995}}}}`
		f := flow.New[json.RawMessage, json.RawMessage]("accounts.choose")
		flow.Return(f, flow.Waitpoint[json.RawMessage](f, "choose", activity.AnswerSchema(json.RawMessage(schema))))
		def, err := f.Build()
		require.NoError(t, err)
		for _, id := range []string{"form", "json"} {
			run, err := runtime.Start(t.Context(), p.client, def, json.RawMessage(`{}`), runtime.WithID(id))
			require.NoError(t, err)
			await(t, run.RunRef, "choose", "suspended")
			w := open(t, p.url)
			w.goTo("inbox?ask=accounts.choose")
			w.click(`[data-ask="` + id + `"]`)
			w.see(`[data-field="/account"]`)
			if id == "form" {
				require.Equal(t, []string{"9007199254740993", "9007199254740992", "616581622363398142", "1.50", `a "b"`},
					evaluate[[]string](w, `[...document.querySelectorAll('[data-field="/account"] option:enabled')].map((o) => o.textContent)`))
				require.Equal(t, []string{"9007199254740993", "9007199254740992"},
					evaluate[[]string](w, `[...document.querySelectorAll('[data-field="/one"] label')].map((o) => o.textContent)`))
				require.Zero(t, evaluate[int](w, `document.querySelectorAll('[data-field="/one"] :checked').length`), "nothing is chosen")
				require.Empty(t, evaluate[string](w, `document.querySelector('[data-field="/account"]').value`), "nothing is chosen")
				w.fill("/account", "9007199254740993")
				w.click(`[data-field="/one"] label:first-of-type`)
				w.press("Add more")
			} else {
				w.press("JSON")
				w.fill("json", `{"account": 616581622363398142, "one": 9007199254740993, "rate": 12345678901234567890.10, "note": "x", "more": [9007199254740997]}`)
				w.press("Form")
				w.see(`[data-field="/account"]`)
			}
			w.fill("/note", "chosen")
			w.press("Send answer")
			w.shows("Answered")
			result, err := run.Result(t.Context())
			require.NoError(t, err)
			want := `{"account":9007199254740993,"one":9007199254740993,"rate":12345678901234567890.10,"note":"chosen","more":[9007199254740995]}`
			if id == "json" {
				want = `{"account":616581622363398142,"one":9007199254740993,"rate":12345678901234567890.10,"note":"chosen","more":[9007199254740997]}`
			}
			require.Equal(t, want, strings.ReplaceAll(string(result), " ", ""))
		}
	})
}

// A user without the right to read payloads sees neither fields nor the choice of them, but does see answers. A user
// with rights to some flows only may not read the audit log, and has no list of answers.
func TestInboxOfAViewer(t *testing.T) {
	const admin = "secret-of-the-admin"
	p := newPlace(t, "embedded", func(c *server.Config) { c.Tokens, c.AdminToken = true, admin })
	p.settled(t, "CLM-1")
	c, err := httpclient.New(p.url, httpclient.Config{Token: admin})
	require.NoError(t, err)
	some, err := c.CreateToken(t.Context(), api.CreateTokenInput{Name: "some", Role: api.Viewer, Flows: "claims.*"})
	require.NoError(t, err)
	for token, offered := range map[string]bool{p.viewer(t, admin): true, some.Text: false} {
		w := open(t, p.url)
		w.tolerate() // the browser notes that the server refused the first request
		w.goTo("inbox")
		w.fill("token", token)
		w.press("Sign in")
		w.shows("Hidden. Your role does not include payloads.")
		require.Zero(t, evaluate[int](w, `document.querySelectorAll(".fields, .answer .seg").length`))
		require.Equal(t, offered, evaluate[bool](w, `[...document.querySelectorAll("a")].some((a) => a.textContent === "Answered")`))
	}
}

// Answers are listed with who has given them, when, and by which way, the latest first, also while the list is open.
func TestInboxAnswered(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.asks(t, "app", `{}`)
		p.asks(t, "shop", `{}`)
		w := open(t, p.url)
		w.goTo("inbox")
		w.shows("Answered ones are under Answered. They never mix with what is open.")
		w.press("Answered")
		w.shows("Nobody has answered yet.")
		w.press("Inbox")
		w.click(`[data-ask="app"]`)
		w.shows("Run app of release.ship waits at go-live.")
		w.click(`[data-choice="reject"]`)
		w.shows("You rejected. The run continues.")
		w.gone(`[data-ask="app"]`)
		w.see(`[data-ask="shop"]`)
		w.press("Answered")
		w.see(`tr[data-answer="app"]`)
		require.Regexp(t, `^[\d:]+ anonymous \(you\) through the server reject app release.ship, go-live$`, w.row("app"))
		w.audit("answered")

		c, err := httpclient.New(p.url, httpclient.Config{})
		require.NoError(t, err)
		waits, err := p.client.Run("release.ship", "shop").Waitpoints(t.Context())
		require.NoError(t, err)
		answer := api.SignalRunInput{
			Node: "go-live", Wait: waits[0].ID, SignalBody: api.SignalBody{Name: "approve", Source: "bot"},
		}
		_, err = c.SignalRun(t.Context(), "release.ship", "shop", answer)
		require.NoError(t, err)
		w.see(`tr[data-answer="shop"]`)
		require.Regexp(t, `anonymous \(you\) through the server; in the name of bot approve shop release.ship, go-live$`, w.row("shop"))
		require.Equal(t, "shop,app", evaluate[string](w, `[...document.querySelectorAll("tr[data-answer]")].map((r) => r.dataset.answer).join()`))
		late, err := c.SignalRun(t.Context(), "release.ship", "shop", answer)
		require.NoError(t, err)
		require.EqualValues(t, "closed", late.Outcome, "no answer to a wait that is over")
		w.press("app")
		w.see(`.runhead`)
		w.see(`.panel`)
	})
}

// row returns the text of the row about the answer to a run.
func (w *window) row(run string) string {
	w.t.Helper()
	text := evaluate[string](w, `[...document.querySelector('tr[data-answer="`+run+`"]').children].map((c) => c.innerText).join(" ")`)
	return strings.Join(strings.Fields(text), " ")
}

// The answer's form is chosen in the head of its card; both forms have the same value.
func TestInboxAnswerAsJSON(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		close(p.bank)
		close(p.handed)
		run := p.start(t, "CLM-1")
		await(t, run.RunRef, "review", "suspended")
		w := open(t, p.url)
		w.goTo("inbox")
		w.see(`[data-field="/amount"]`)
		w.fill("/amount", "18420")
		w.click(`header [aria-label="Form of the Answer"] button:last-child`)
		require.JSONEq(t, `{"amount": 18420}`, evaluate[string](w, `document.querySelector('[data-field=json]').value`))
		w.fill("json", `{"amount": 100}`)
		w.click(`header [aria-label="Form of the Answer"] button:first-child`)
		w.await(`document.querySelector('[data-field="/amount"]')?.value === "100"`)
		w.press("Send answer")
		w.shows("The run continues")
		result, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "paid 100", result)
	})
}

// How long an ask has left is amber in its last hour, and red once it is late.
func TestInboxDue(t *testing.T) {
	p := newPlace(t, "embedded")
	p.settled(t, "CLM-1")
	p.asks(t, "app", `{}`)
	w := open(t, p.url)
	w.goTo("inbox")
	w.see(`[data-ask="app"] .due.c-held`)
	w.see(`[data-ask="CLM-1"] .due.muted`)
	w.audit("due", ".list")
}

// The inbox lists all asks, or the principal's: asks of its name, of one of its groups, and of everybody. The badge
// counts the principal's.
func TestInboxOfOneself(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
		p := start(func(c *server.Config) {
			c.Proxy = &server.ProxyLogin{UserHeader: "X-User", GroupsHeader: "X-Groups", From: loopback}
			c.Proxy.Grants = []server.Grant{{MatchGroup: "staff", Role: api.Operator}}
		})
		for run, audience := range map[string][]string{
			"for-ann": {"ann"}, "for-managers": {"cfo", "managers"}, "for-auditors": {"auditors"}, "for-all": nil,
		} {
			f := flow.New[string, activity.Decision]("ask." + run)
			flow.Return(f, flow.Waitpoint[activity.Decision](f, "gate", activity.Signals("approve", "reject"),
				activity.Title("About "+run), activity.Audience(audience...)))
			def, err := f.Build()
			require.NoError(t, err)
			r, err := runtime.Start(t.Context(), p.client, def, "x", runtime.WithID(run))
			require.NoError(t, err)
			await(t, r.RunRef, "gate", "suspended")
		}
		behind, err := url.Parse(p.url)
		require.NoError(t, err)
		listed := `[...document.querySelectorAll("[data-ask]")].map((e) => e.dataset.ask).sort().join()`
		const everything = "for-all,for-ann,for-auditors,for-managers"
		for _, who := range []struct{ name, groups, mine, badge string }{
			{"ann", "staff,managers", "for-all,for-ann,for-managers", "3"}, {"bob", "staff", "for-all", "1"},
			{"managers", "staff", "for-all,for-managers", "2"},
		} {
			proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host = behind.Scheme, behind.Host
				r.Out.Header.Set("X-User", who.name)
				r.Out.Header.Set("X-Groups", who.groups)
			}}
			front := httptest.NewServer(proxy)
			t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
			w := open(t, front.URL+"/a/b/")
			w.goTo("inbox")
			w.await(listed + ` === "` + everything + `"`)
			w.await(`document.querySelector('.nav a[title="Inbox"] .n')?.firstChild.textContent === "` + who.badge + `"`)
			w.press("Mine")
			w.await(listed + ` === "` + who.mine + `"`)
			require.Equal(t, "?of=mine", evaluate[string](w, `location.search.replace(/&ask=.*/, "")`))
			w.press("All")
			w.await(listed + ` === "` + everything + `"`)
		}
	})
}

// A field of two to four words has a radio button for each, required or not, and none is chosen before a person does.
func TestWordsAreChosen(t *testing.T) {
	p := newPlace(t, "embedded")
	schema := `{"type": "object", "required": ["size", "only", "many"], "properties": {
		"size": {"enum": ["small", "large"]}, "colour": {"enum": ["red", "green", "blue", "grey"]}, "only": {"enum": ["one"]},
		"usual": {"enum": ["yes", "no"], "default": "no"}, "many": {"enum": ["a", "b", "c", "d", "e"]}}}`
	f := flow.New[string, json.RawMessage]("shop.choose")
	flow.Return(f, flow.Waitpoint[json.RawMessage](f, "choose", activity.AnswerSchema(json.RawMessage(schema))))
	def, err := f.Build()
	require.NoError(t, err)
	run, err := runtime.Start(t.Context(), p.client, def, "x", runtime.WithID("one"))
	require.NoError(t, err)
	await(t, run.RunRef, "choose", "suspended")
	w := open(t, p.url)
	w.tolerate() // the browser notes the refusal
	w.goTo("inbox?ask=shop.choose")
	w.click(`[data-ask="one"]`)
	w.see(`[data-field="/size"]`)
	count := func(selector string) int { return evaluate[int](w, `document.querySelectorAll('`+selector+`').length`) }
	require.Equal(t, 2, count(`[data-field="/size"] [type=radio]`))
	require.Equal(t, 4, count(`[data-field="/colour"] [type=radio]`))
	require.Zero(t, count(`[data-field="/size"] :checked, [data-field="/colour"] :checked`))
	require.Empty(t, evaluate[string](w, `document.querySelector('[data-field="/many"]').value`))
	w.audit("words")
	w.press("Send answer")
	w.see(`[data-field="/size"] .fault`)
	w.click(`[data-field="/size"] label:last-of-type`)
	w.click(`[data-field="/colour"] label:first-of-type`)
	w.await(`document.querySelectorAll('[data-field="/colour"] :checked').length === 1`)
	w.press("Clear")
	w.await(`document.querySelectorAll('[data-field="/colour"] :checked').length === 0`)
	w.fill("/many", `"c"`)
	w.press("Send answer")
	w.shows("Answered")
	result, err := run.Result(t.Context())
	require.NoError(t, err)
	require.JSONEq(t, `{"size": "large", "only": "one", "many": "c"}`, string(result))
}
