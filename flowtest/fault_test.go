package flowtest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flowtest"
)

// failing is a test that notes how it fails.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Errorf(format string, args ...any) { f.text += fmt.Sprintf(format, args...) + "\n" }

func (f *failing) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *failing) Skipf(format string, args ...any) { f.Fatalf(format, args...) }

// failureOf returns the text with which an assertion fails, and fails the test if it does not.
func failureOf(t *flowtest.T, assertion func()) string {
	t.Helper()
	before := t.TB
	noted := &failing{TB: before}
	t.TB = noted
	done := make(chan struct{})
	go func() {
		defer close(done)
		assertion()
	}()
	<-done
	t.TB = before
	if noted.text == "" {
		t.Error("the assertion did not fail")
	}
	return noted.text
}

// approved starts a refund and approves it.
func approved(t *flowtest.T) *flowtest.TypedRun[string] {
	fakes(t)
	run := flowtest.Start(t, refund(t), order{ID: 7, Cents: 1200})
	run.Node("approve").Waiting().Signal("approve", "ann")
	return run
}

func TestErrorsAndPanicsOfAttempts(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		t.Inject(charge, flowtest.Attempt(1), flowtest.Error(errors.New("no answer")))
		t.Inject(flowtest.Node("charge"), flowtest.Attempt(2), flowtest.Panic("nil order"))
		t.Inject(flowtest.Named("mail.send"), flowtest.EveryAttempt(),
			flowtest.Error(activity.NonRetryable(errors.New("no such address"))))
		run := approved(t)
		failed := run.MustFail()
		if failed.Node != "mail" || !strings.Contains(failed.Reason, "no such address") {
			t.Errorf("the run failed with %v", failed)
		}
		run.Node("charge").Succeeded().Attempts(3)
		run.Node("mail").Failed().Attempts(1)
		run.Node("undo").Succeeded()
		calls := t.Calls(charge)
		if len(calls) != 3 || calls[1].Began.Sub(calls[0].Began) < 10*time.Minute {
			t.Errorf("calls %+v", calls)
		}
	})
}

// A function that hangs is given up after its time.
func TestHang(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		t.Inject(charge, flowtest.Attempt(1), flowtest.Hang())
		run := approved(t)
		run.MustResult()
		run.Node("charge").Attempts(2)
		calls := t.Calls(charge)
		if took := calls[0].Ended.Sub(calls[0].Began); took != time.Minute {
			t.Errorf("the attempt hung for %s and may take a minute", took)
		}
		if !errors.Is(calls[0].Err, context.DeadlineExceeded) && calls[0].Err == nil {
			t.Errorf("the attempt returned %v", calls[0].Err)
		}
	})
}

// The executions of a worker that died run on another one when the lease is over, which costs no retry.
func TestLoseWorker(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		t.Inject(charge, flowtest.Attempt(1), flowtest.LoseWorker())
		run := approved(t)
		run.MustResult()
		node := run.Node("charge").Succeeded().Description()
		if node.Reclaims != 1 || node.Retries != 0 {
			t.Errorf("%d workers lost, %d retries\n%s", node.Reclaims, node.Retries, run.Table())
		}
		if took := run.Elapsed(); took < 5*time.Second || took > time.Minute {
			t.Errorf("the run took %s; a lease lasts 10 s", took)
		}
	})
}

// A result whose reply is lost is committed once: the worker repeats the call.
func TestLoseReply(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		t.Inject(charge, flowtest.Attempt(1), flowtest.LoseReply())
		run := approved(t)
		run.MustResult()
		run.Node("charge").Attempts(1)
		if n := len(t.Calls(charge)); n != 1 {
			t.Errorf("the function was called %d times", n)
		}
	})
}

func TestTimeOut(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		fakes(t)
		run := flowtest.Start(t, refund(t), order{ID: 7})
		run.Node("approve").Waiting().TimeOut().Failed()
		run.MustBe("failed")
		run.Node("charge").Skipped()
		if took := run.Elapsed().Truncate(time.Second); took != 2*time.Hour {
			t.Errorf("the run took %s", took)
		}
	})
}

// A failed assertion describes the mismatch and shows the run.
func TestFailuresShowTheRun(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		t.Inject(mail, flowtest.EveryAttempt(), flowtest.Error(activity.NonRetryable(errors.New("no such address"))))
		run := approved(t)
		run.MustFail()
		run.Node("undo").Succeeded()
		for assertion, want := range map[string]struct {
			fails func()
			text  string
		}{
			"result": {func() { run.MustResult() }, "no such address"},
			"state":  {func() { run.MustSucceed() }, "the run is failed and was to be succeeded"},
			"node":   {func() { run.Node("mail").Succeeded() }, "node mail is failed and was to be completed"},
			"is":     {func() { run.Node("undo").Is("skipped") }, "node undo is completed and was to be skipped"},
			"none":   {func() { run.Node("bill") }, `the run has no node "bill"`},
			"tries":  {func() { run.Node("charge").Attempts(2) }, "node charge had 1 attempts and was to have 2"},
			"order":  {func() { run.Order("mail", "charge") }, "node charge began before node mail"},
			"wait":   {func() { run.Node("mail").Waiting() }, "node mail is failed and was to wait for signals"},
		} {
			text := failureOf(t, want.fails)
			if !strings.Contains(text, want.text) {
				t.Errorf("%s: the failure is %q, without %q", assertion, text, want.text)
			}
			if !strings.Contains(text, "card.charge") || !strings.Contains(text, `{"number":"r-1"}`) {
				t.Errorf("%s: the failure does not show the run: %s", assertion, text)
			}
		}
	})
}

// A test with fakes or faults that are never used fails.
func TestUselessFakesAndFaultsFail(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		t.FakeName("mail.sned", flowtest.Return("sent"))
		t.Inject(mail, flowtest.Attempt(2), flowtest.Hang())
		approved(t).MustResult()
		text := failureOf(t, t.CheckFakes)
		for _, want := range []string{
			`"mail.sned", which no flow of the test has`, "Hang of mail.send at attempt 2",
			"the last attempt was number 1",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the failure is %q, without %q", text, want)
			}
		}
		t.ForgetFakes()
	})
}
