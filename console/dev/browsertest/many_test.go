package browsertest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// judge logs a time, and fails when it is too long if FLOWFABRIC_TIMES is set, as `make bench-console` does on a quiet
// machine. Elsewhere, machines are busy.
func judge(t *testing.T, what string, took, most time.Duration) {
	t.Helper()
	t.Logf("%s took %v, at most %v are wanted", what, took.Round(time.Millisecond), most)
	if os.Getenv("FLOWFABRIC_TIMES") != "" && took > most {
		t.Errorf("%s took %v, more than %v", what, took, most)
	}
}

// An action in one window appears in the other one at once.
func TestWindowsShareActions(t *testing.T) {
	p := newPlace(t, "embedded")
	p.settled(t, "CLM-1")
	one, two := open(t, p.url), open(t, p.url)
	one.goTo("runs/claims.assess/CLM-1")
	two.goTo("runs/claims.assess/CLM-1")
	two.see(`[data-node="review"][data-state="person"]`)
	two.see(`[data-live=open]`)
	one.see(`#actions`)
	for _, step := range []struct{ item, verb, state string }{
		{"Pause…", "Pause run", "Paused"}, {"Resume…", "Resume run", "Waiting for person"},
	} {
		evaluate[any](two, `(() => {
			window.seenAt = 0;
			const look = () => {
				if (document.querySelector(".runhead .st").textContent === "`+step.state+`") window.seenAt = Date.now();
				else requestAnimationFrame(look);
			};
			look();
		})()`)
		one.click(`#actions`)
		one.press(step.item)
		one.see("dialog[open]")
		one.await(`(() => {
			const button = [...document.querySelectorAll("dialog[open] button")].find((b) => b.textContent === "` + step.verb + `");
			window.clickedAt = Date.now();
			button?.click();
			return !!button;
		})()`)
		two.await(`window.seenAt > 0`)
		took := evaluate[float64](two, `window.seenAt`) - evaluate[float64](one, `window.clickedAt`)
		judge(t, step.verb+" in the other window", time.Duration(took)*time.Millisecond, 300*time.Millisecond)
		one.gone("dialog")
	}
}

// A list of very many runs opens, counts correctly, stays live, and one bulk job selects all of them. There are 10,000
// runs, since a busy machine needs a minute to start more; with FLOWFABRIC_TIMES, 100,000.
func TestManyRuns(t *testing.T) {
	manyRuns, number := 10_000, "10,000"
	if os.Getenv("FLOWFABRIC_TIMES") != "" {
		manyRuns, number = 100_000, "100,000"
	}
	p := newPlace(t, "embedded")
	begun := time.Now()
	for first := 0; first < manyRuns; first += 10_000 {
		runs := make([]runtime.NewRun[claim], 10_000)
		for i := range runs {
			runs[i] = runtime.NewRun[claim]{
				Input: claim{Claim: "x"},
				Options: []runtime.StartOption{
					runtime.WithID(fmt.Sprintf("mt-%06d", first+i)), runtime.StartAt(time.Now().Add(24 * time.Hour)),
				},
			}
		}
		started, err := runtime.StartMany(t.Context(), p.client, p.media, runs)
		require.NoError(t, err)
		for _, s := range started {
			require.NoError(t, s.Err)
		}
	}
	t.Logf("%d runs were started within %v", manyRuns, time.Since(begun).Round(time.Millisecond))

	w := open(t, p.url)
	w.goTo("settings")
	w.see("main .card")
	begun = time.Now()
	w.goTo("runs")
	w.see(`tr[data-run]`)
	judge(t, "the list of "+number+" runs", time.Since(begun), time.Second)
	w.shows(number + " runs")
	w.see(`[data-live=open]`)
	w.await(`document.querySelector('[data-state=running] b').title === "` + number + `"`)

	// The list is live, and its visible rows stay in place.
	begun = time.Now()
	top := evaluate[string](w, `document.querySelector("tr[data-run]").dataset.run`)
	p.settled(t, "CLM-1")
	w.shows("1 new")
	judge(t, "a new run above the list", time.Since(begun), 3*time.Second) // with the time until the run waits
	require.Equal(t, top, evaluate[string](w, `document.querySelector("tr[data-run]").dataset.run`))
	begun = time.Now()
	w.key("n")
	w.see(`tr[data-run="CLM-1"]`)
	judge(t, "the new run in the list", time.Since(begun), time.Second)
	w.shows(strings.TrimSuffix(number, "0") + "1 runs")
	begun = time.Now()
	w.press("Show 50 more")
	w.await(`document.querySelectorAll("tr[data-run]").length === 100`)
	judge(t, "the next page", time.Since(begun), time.Second)

	// A search by id and a filter find rows far down the list.
	begun = time.Now()
	w.search("mt-000042")
	w.see(`.runhead`)
	judge(t, "the jump to an id", time.Since(begun), time.Second)
	w.goTo("runs?flow=media.transcode&state=running")
	w.see(`tr[data-run]`)
	w.shows(number + " runs")

	// All of them are a bulk job, whose progress is live.
	w.click(`tr[data-run] input`)
	w.press("Select all " + number + " that match")
	w.press("Raise priority…")
	begun = time.Now()
	w.see(`[data-preview]`)
	judge(t, "the dry run", time.Since(begun), 5*time.Second)
	w.press("Raise priority")
	w.see(`[data-job-state]`)
	w.await(`Number(document.querySelector(".stats b").textContent.replaceAll(",", "")) > 0`)
	done := evaluate[string](w, `document.querySelector(".stats b").textContent`)
	w.await(`document.querySelector("[data-job-state=completed]") || document.querySelector(".stats b").textContent !== "` + done + `"`)
}
