package browsertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/runtime"
)

// A signal goes to the wait of a node by its name: one with a form for its payload while it waits, and as JSON before.
func TestSignal(t *testing.T) {
	eachEngine(t, func(t *testing.T, start opener) {
		p := start()
		close(p.bank)
		close(p.handed)
		run := p.start(t, "CLM-1")
		await(t, run.RunRef, "review", "suspended")
		w := open(t, p.url)
		w.tolerate() // the browser notes the refusal of a bad payload
		w.goTo("runs/claims.assess/CLM-1")
		w.see(`[data-node="review"][data-state="person"]`)
		w.click("#actions")
		w.press("Signal…")
		w.see("dialog[open]")
		w.shows("review waits: 0 of 1 have come.")
		w.fill("signal-name", "answer")
		w.fill("/amount", "many")
		w.press("Send signal")
		w.shows("The payload is not JSON, or a field of it is empty or not of its type.")
		w.fill("/amount", "1.5")
		w.press("Send signal")
		w.see("dialog[open] .editor .fault")
		w.fill("/amount", "12")
		w.press("Send signal")
		w.gone("dialog")
		w.shows("Signal sent. review goes on.")
		result, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "paid 12", result)

		later := p.start(t, "CLM-2", runtime.StartAt(time.Now().Add(time.Hour)))
		w.goTo("runs/claims.assess/CLM-2?node=review")
		w.press("Signal…")
		w.see("dialog[open]")
		w.shows("A signal that comes before its wait is kept for it.")
		w.press("Send signal")
		w.shows("The signal needs a name.")
		w.fill("signal-name", "answer")
		w.fill("json", `{"amount": 7}`)
		w.press("Send signal")
		w.gone("dialog")
		w.shows("Signal sent. It is kept until review waits.")
		require.NoError(t, later.MoveStart(t.Context(), time.Now()))
		result, err = later.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "paid 7", result)
	})
}
