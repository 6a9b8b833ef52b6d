package browsertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Every action of the console is in a test of this folder, by the word on its button.
func TestEveryActionIsTested(t *testing.T) {
	t.Parallel()
	tests, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	var text strings.Builder
	for _, name := range tests {
		body, err := os.ReadFile(name)
		require.NoError(t, err)
		text.Write(body)
	}
	verb := regexp.MustCompile(`verb: "([^"]+)"`)
	require.NoError(t, fs.WalkDir(os.DirFS("../../src"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(filepath.Join("../../src", path))
		require.NoError(t, err)
		for _, found := range verb.FindAllStringSubmatch(string(body), -1) {
			require.Contains(t, text.String(), `"`+found[1]+`"`, "the action %q of %s has no test", found[1], path)
		}
		return nil
	}))
}

// A run's priority is set, its pending nodes and a node are cancelled, it is rerun, and purged.
func TestActionsOfARun(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM-1")
		p.settled(t, "CLM-2")
		w := open(t, p.url)
		w.goTo("runs/claims.assess/CLM-1?tab=table")
		w.see(`tr[data-node="review"]`)
		w.see(`#actions`)
		w.click(`#actions`)
		w.press("Priority…")
		w.see("dialog[open]")
		w.fill("priority", "high")
		w.press("Set priority")
		w.shows("must be a whole number")
		w.fill("priority", "7")
		w.press("Set priority")
		w.gone("dialog")
		w.click(`tr[data-node="bank-check"]`)
		w.confirm("Cancel node…", "Cancel node")
		w.see(`tr[data-node="bank-check"]`)
		w.await(`document.querySelector('tr[data-node="bank-check"] .st').textContent === "Cancelled"`)
		w.goTo("runs/claims.assess/CLM-2?tab=table")
		w.act("Cancel pending…", "Cancel pending")
		w.await(`document.querySelector('tr[data-node="review"] .st').textContent === "Cancelled"`)
		close(p.handed)
		w.await(`document.querySelector(".runhead .st").textContent === "Cancelled"`)
		w.act("Rerun failed…", "Rerun failed")
		w.await(`document.querySelector('tr[data-node="review"] .st').textContent === "Waiting for person"`)
		w.act("Cancel run…", "Cancel run")
		w.await(`document.querySelector(".runhead .st").textContent === "Cancelled"`)
		w.act("Rerun all…", "Rerun all")
		w.await(`document.querySelector('tr[data-node="review"] .st').textContent === "Waiting for person"`)
		w.act("Cancel run…", "Cancel run")
		w.await(`document.querySelector(".runhead .st").textContent === "Cancelled"`)
		w.click(`#actions`)
		w.press("Purge…")
		w.see("dialog[open]")
		require.True(t, evaluate[bool](w, `document.querySelector("dialog .destroy").disabled`), "the id must be typed first")
		w.fill("confirm", "CLM-2")
		// The page of the run may request it once more before the list replaces it, and gets an error since the run
		// does not exist.
		w.tolerate()
		w.press("Purge run")
		w.see(`tr[data-run="CLM-1"]`)
		w.gone(`tr[data-run="CLM-2"]`)
	})
}

// Another run begins where one is, with another result, and both are compared.
func TestFork(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		close(p.bank)
		close(p.handed)
		run := p.start(t, "CLM-1")
		await(t, run.RunRef, "review", "suspended")
		w := open(t, p.url)
		w.goTo("inbox")
		w.answer("fail")
		w.goTo("runs/claims.assess/CLM-1?node=review")
		w.see(`[data-node="settle"][data-state="failed"]`)
		w.press("Fork from here…")
		w.see("dialog[open]")
		w.shows("5 nodes run: review, settle, notify, archive and roll-back.")
		w.press("review ×")
		w.fill("another_result_of", "review")
		w.see(`[name="result-review"]`)
		w.fill("result-review", `{"amount": 12`)
		w.fill("id", "CLM-1b")
		w.press("Start the fork")
		w.shows("The result of review is no JSON.")
		w.fill("result-review", `{"amount": 1200, "reason": "half"}`)
		w.press("Start the fork")
		w.gone("dialog")
		w.shows("fork of CLM-1")
		w.await(`document.querySelector(".runhead .st").textContent === "Succeeded"`)
		w.press("fork of CLM-1")
		w.shows("paid 1200")
		w.see(`main table`)
	})
}

// The page of a rerun compares the nodes that ran again with their earlier attempts.
func TestRunPageComparesReruns(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		close(p.bank)
		close(p.handed)
		run := p.start(t, "CLM-1")
		await(t, run.RunRef, "review", "suspended")
		w := open(t, p.url)
		w.goTo("inbox")
		w.answer("fail")
		w.goTo("runs/claims.assess/CLM-1?tab=graph&node=review")
		w.see(`[data-node="settle"][data-state="failed"]`)
		w.await(`document.querySelector(".runhead .st").textContent === "Failed"`)
		w.confirm("Rerun from here…", "Rerun from here")
		w.see(`[data-node="review"][data-state="person"]`)
		w.goTo("inbox")
		w.answer("fine")
		w.goTo("runs/claims.assess/CLM-1?tab=compare")
		w.shows("Before and after the last rerun")
		w.see(`tr[data-node="settle"]`)
		w.await(`[...document.querySelectorAll('tr[data-node="settle"] .st')].map((e) => e.textContent).join() === "Failed,Succeeded"`)
		w.shows("card_declined")

		// Data of earlier attempts is kept: their logs, and answers. Results are not.
		w.click(`[data-former="review"]`)
		w.see(`[data-former-of="review"] [data-wait="closed"]`)
		w.await(`[...document.querySelectorAll("[data-former-of=review] .json")].map((e) => e.textContent.match(/fail|fine/)?.[0]).join() === "fail,fine,fine"`)
		w.click(`[data-former="settle"]`)
		w.shows("It ended without a result then.")
		w.see(`[data-former-of="settle"] pre`)
		w.shows("paid 18420")
		w.press("Logs and stream")
		w.see(`.bar-top .chip.on`)
		require.Contains(t, evaluate[string](w, `location.search`), "attempt=1")

		// An earlier rerun can be chosen, too.
		require.NoError(t, run.Rerun(t.Context(), fabrictype.RerunAll))
		w.goTo("inbox")
		w.answer("again")
		w.goTo("runs/claims.assess/CLM-1?tab=compare")
		w.see(`select[name=rerun]`)
		w.see(`tr[data-node="extract"]`)
		w.await(`(() => { const s = document.querySelector("select[name=rerun]"); s.value = s.options[0].value; return s.dispatchEvent(new Event("change", { bubbles: true })); })()`)
		w.see(`[data-rerun-nodes="5"]`)
		w.gone(`tr[data-node="extract"]`)
	})
}

// A schedule is edited with a preview of its times, its pause gets another reason, and it is deleted.
func TestScheduleIsEdited(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		_, err := runtime.Schedule(t.Context(), p.client, "nightly", p.claims, claim{Claim: "nightly", Pages: 1},
			runtime.ScheduleConfig{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"})
		require.NoError(t, err)
		w := open(t, p.url)
		w.tolerate() // the browser notes the refusal of a bad expression
		w.goTo("schedules/nightly")
		w.press("Edit…")
		w.see(`[data-preview="10"]`)
		w.fill("cron", "61 * * * *")
		w.see(".fault")
		w.fill("cron", "0 6 * * 1")
		w.see(`[data-preview="10"]`)
		w.shows("7 d later")
		w.fill("overlap", "queue")
		w.fill("queue_limit", "3")
		w.press("Save schedule")
		w.gone("dialog")
		w.shows("0 6 * * 1, Europe/Berlin")
		s, err := p.client.Schedule("nightly").Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, fabrictype.OverlapQueue, s.Overlap)
		require.Equal(t, 3, s.QueueLimit)
		require.JSONEq(t, `{"claim": "nightly", "amount": 0, "pages": 1, "parts": 0}`, p.inputOf(t, "nightly"), "it stays")
		w.press("Edit…")
		w.see(`dialog [data-field="/pages"]`)
		require.Equal(t, "1", evaluate[string](w, `document.querySelector('dialog [data-field="/pages"]').value`))
		w.fill("/pages", "2")
		w.press("Save schedule")
		w.gone("dialog")
		require.JSONEq(t, `{"claim": "nightly", "amount": 0, "pages": 2, "parts": 0}`, p.inputOf(t, "nightly"))
		w.shows(`"pages": 2`)
		w.confirm("Pause…", "Pause schedule")
		w.press("Change the reason…")
		w.see("dialog[open]")
		w.fill("reason", "until the audit is over")
		w.press("Change the reason")
		w.shows("until the audit is over")
		w.confirm("Delete…", "Delete schedule")
		w.shows("No schedules yet.")
	})
}

// inputOf returns the input of the runs of a schedule.
func (p *place) inputOf(t *testing.T, schedule string) string {
	t.Helper()
	v, err := p.client.Schedule(schedule).Input(t.Context())
	require.NoError(t, err)
	return string(v.Bytes())
}

// Several runs are paused, resumed and made more urgent at once; a bulk job is stopped.
func TestBulkActions(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM-1")
		w := open(t, p.url)
		w.goTo("runs?flow=claims.assess")
		for _, step := range []struct{ button, verb, state string }{
			{"Pause…", "Pause runs", "Waiting for person"}, {"Resume…", "Resume runs", "Waiting for person"},
			{"Raise priority…", "Raise priority", "Waiting for person"},
		} {
			w.see(`tr[data-run="CLM-1"]`)
			w.click(`tr[data-run="CLM-1"] input`)
			w.confirm(step.button, step.verb)
			w.await(`[...document.querySelectorAll(".toast a")].some((a) => a.textContent === "CLM-1")`)
		}
		d, err := p.client.Run("claims.assess", "CLM-1").Describe(t.Context())
		require.NoError(t, err)
		require.True(t, d.PausedAt.IsZero(), "it was resumed again")

		for i := range 60 {
			_, err := runtime.Start(t.Context(), p.client, p.media, claim{Claim: "x"},
				runtime.WithID(fmt.Sprintf("mt-%d", i)), runtime.StartAt(time.Now().Add(time.Hour)))
			require.NoError(t, err)
		}
		body := `{"query": "flow=media.transcode", "action": {"kind": "pause"}, "rate": 1}`
		reply, err := http.Post(p.url+"api/v1/bulk", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
		require.Less(t, reply.StatusCode, 300)
		w.goTo("bulk")
		w.see(`tr[data-job]`)
		w.click(`tr[data-job] a`)
		w.see(`[data-job-state=running]`)
		w.confirm("Stop…", "Stop job")
		w.see(`[data-job-state=stopped]`)
	})
}

// Budgets are reset and deleted, a paused activity is resumed, a flow is withdrawn.
func TestBudgetActivityAndFlowActions(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		ctx := t.Context()
		require.NoError(t, p.client.Budget(fabrictype.BudgetName{Name: "models"}).Create(ctx, flow.BudgetConfig{Hard: map[string]int64{"tokens": 1000}}))
		require.NoError(t, p.client.Activity("claims.bank").Pause(ctx, "bank is down"))
		w := open(t, p.url)
		w.goTo("budgets")
		w.see(`[data-budget="models"]`)
		w.confirm("Reset…", "Reset budget")
		w.confirm("Delete…", "Delete budget")
		w.shows("No budgets yet.")
		w.goTo("lanes")
		w.shows("bank is down")
		w.confirm("Resume…", "Resume activity")
		w.await(`!document.body.innerText.includes("bank is down")`)
		w.goTo("flows/media.transcode")
		w.confirm("Withdraw…", "Withdraw flow")
		w.see(`tr[data-flow="claims.assess"]`)
		w.gone(`tr[data-flow="media.transcode"]`)
		w.goTo("settings")
		w.press("New token…")
		w.see("dialog[open]")
		w.fill("token-name", "ci")
		w.press("Create token")
		w.shows("The token, shown once")
		w.goTo("settings")
		w.shows("ci")
		w.confirm("Delete…", "Delete token")
		w.shows("No tokens yet.")
	})
}

// A bulk job that cannot be started shows why, with a button to go back.
func TestBulkJobIsRefused(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		for i := range 2 {
			p.settled(t, fmt.Sprintf("CLM-%d", i))
		}
		front := newFront(t, p.url)
		w := open(t, front.url)
		w.goTo("runs?flow=claims.assess")
		w.see(`tr[data-run="CLM-1"]`)
		w.click(`tr[data-run="CLM-1"] input`)
		w.press("Select all 2 that match")
		w.tolerate()
		front.away.Store(true)
		w.press("Cancel…")
		w.see("dialog[open] .strong")
		w.press("Close")
		w.gone("dialog")
	})
}

// Filters are kept under a name.
func TestSavedViews(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM-1")
		w := open(t, p.url)
		w.goTo("runs?state=failed&flow=claims.assess")
		w.shows("No run matches.")
		w.press("Save this view…")
		w.see("dialog[open]")
		w.fill("view", "Failed claims")
		w.press("Save view")
		w.gone("dialog")
		w.goTo("runs")
		w.see(`tr[data-run="CLM-1"]`)
		w.press("Failed claims")
		w.await(`location.search === "?state=failed&flow=claims.assess"`)
		w.shows("No run matches.")
		w.click(`[aria-label="Forget the view Failed claims"]`)
		w.gone(`[data-view]`)
	})
}

// A flow shows how its nodes did in its last runs, and which runs are on which version.
func TestFlowStatistics(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		p.settled(t, "CLM-1")
		w := open(t, p.url)
		w.goTo("flows/claims.assess")
		w.see(`[data-statistics="extract"]`)
		w.shows("By all 1 run, since")
		w.shows("1 run, 1 open")
		w.shows("Ends in 24 h")
		w.shows("none")
		w.press("1 run, 1 open")
		w.see(`[data-runs-of] a`)
		require.Equal(t, "CLM-1", evaluate[string](w, `document.querySelector("[data-runs-of] a").textContent`))
		require.NoError(t, p.client.Run("claims.assess", "CLM-1").Cancel(t.Context(), ""))
		w.shows("1 cancelled")
		w.press("extract")
		w.see(`[data-node-facts="extract"]`)
		w.shows("1 (100 %)") // it was retried
	})
}

// The slowest nodes of a flow are found in the runs of a chosen time, and so are those that fail most.
func TestSlowestNodes(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		done := make(chan struct{})
		slow := activity.New("speed.slow", func(ctx context.Context, n int) (int, error) {
			select {
			case <-done:
				return n, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		quick := activity.New("speed.quick", func(_ context.Context, n int) (int, error) { return n, nil })
		failing := activity.New("speed.failing", func(context.Context, int) (int, error) {
			return 0, activity.NonRetryable(errors.New("no"))
		})
		f := flow.New[int, int]("speed")
		flow.Return(f, flow.Node(f, "slow", slow, f.Input()))
		gate := flow.Waitpoint[bool](f, "gate")
		flow.Node(f, "quick", quick, f.Input(), flow.After(gate))
		failed := flow.Node(f, "failing", failing, f.Input(), flow.After(gate))
		flow.Node(f, "tolerate", quick, f.Input(), flow.OnFailure(failed))
		def, err := f.Build()
		require.NoError(t, err)
		require.NoError(t, p.client.Publish(t.Context(), runtime.Publication{Flow: def}))
		p.work(t, slow, quick, failing)
		run, err := runtime.Start(t.Context(), p.client, def, 1, runtime.WithID("s-1"))
		require.NoError(t, err)
		await(t, run.RunRef, "slow", "started")
		_, err = run.SignalWait(t.Context(), runtime.WaitName{Node: "gate"}, runtime.Signal{Name: "go", Payload: true})
		require.NoError(t, err)
		await(t, run.RunRef, "quick", "success") // it began and ended while slow ran
		await(t, run.RunRef, "failing", "failed")
		close(done)
		await(t, run.RunRef, "slow", "success")

		w := open(t, p.url)
		w.goTo("flows/speed")
		w.see(`[data-statistics="slow"]`)
		nodes := `[...document.querySelectorAll("[data-statistics]")].map((r) => r.dataset.statistics)`
		w.await(nodes + `[0] === "failing"`)
		w.fill("statistics-time", "1h")
		for _, order := range []string{"median", "p95"} {
			w.fill("statistics-sort", order)
			w.await(`(() => { const all = ` + nodes + `; return all.indexOf("slow") >= 0 && all.indexOf("slow") < all.indexOf("quick"); })()`)
		}
		w.fits("flow with its slowest nodes")
		w.press("slow")
		w.see(`[data-node-facts="slow"]`)

		later := open(t, p.url)
		later.later(3 * 24 * time.Hour)
		later.goTo("flows/speed")
		later.see(`[data-statistics="slow"]`)
		for _, span := range []string{"1h", "24h", "yesterday"} {
			later.fill("statistics-time", span)
			later.shows("No node ended in these runs.")
			later.fill("statistics-time", "7d")
			later.see(`[data-statistics="slow"]`)
		}
	})
}
