package flowtest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flowtest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func approve(runtime.Waitpoint) runtime.Signal {
	return runtime.Signal{Name: "approve", Payload: "ann"}
}

// A flow whose effects have keys of their nodes has each effect once, whatever dies.
func TestStorm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			flowtest.Run(t, func(t *flowtest.T) {
				fakes(t)
				flowtest.Fake(t, charge, func(ctx context.Context, _ order) (receipt, error) {
					info, _ := activity.Info(ctx)
					t.Effect(ctx, info.ExecutionID)
					return receipt{Number: info.ExecutionID}, nil
				})
				flowtest.Storm(t, refund(t), order{ID: 7}, flowtest.StormConfig{Seed: seed, Answer: approve})
				if calls, runs := len(t.Calls(charge)), 11; calls <= runs {
					t.Errorf("%d calls in %d runs: no storm took place", calls, runs)
				}
			})
		})
	}
}

// A storm finds effects that happen twice, because each call has its own key, and keys that two effects share.
func TestStormFindsRepeatedEffects(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		fakes(t)
		flowtest.Fake(t, charge, func(ctx context.Context, _ order) (receipt, error) {
			t.Effect(ctx, uuid.NewString())
			return receipt{}, nil
		})
		flowtest.Fake(t, mail, func(ctx context.Context, _ receipt) (string, error) {
			t.Effect(ctx, "mail")
			return "sent", nil
		})
		text := failureOf(t, func() {
			flowtest.Storm(t, refund(t), order{ID: 7}, flowtest.StormConfig{Seed: 1, Runs: 5, Answer: approve})
		})
		for _, want := range []string{
			"storm with seed 1", "node charge had an effect more than once", "the worker died after the function ran",
			`the key "mail" stands for the effects of node mail of run`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the failure does not say %q: %s", want, text)
			}
		}
	})
}
