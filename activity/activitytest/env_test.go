package activitytest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
)

type answer struct {
	Yes bool `json:"yes"`
}

// survey asks until three people have agreed.
func survey(ctx context.Context, topic string) (int, error) {
	asked, err := activity.Step(ctx, "ask", func(ctx context.Context) (string, error) {
		token, err := activity.OpenWaitpoint(ctx, "answer", time.Hour)
		return "asked about " + topic + ": " + fmt.Sprint(token), err
	})
	if err != nil {
		return 0, err
	}
	if err := activity.Emit(ctx, activity.Frame{Kind: "log", Payload: asked}); err != nil {
		return 0, err
	}
	yes := 0
	for range 3 {
		a, err := activity.Await[answer](ctx, "answer", activity.Signals("answer"))
		if err != nil {
			return 0, fmt.Errorf("survey: %w", err)
		}
		if a.Yes {
			yes++
		}
	}
	return yes, nil
}

func suspendedAt(t *testing.T, err error, want string) {
	t.Helper()
	if step, ok := activitytest.Suspended(err); !ok || step != want {
		t.Fatalf("suspended at %q, %v: %v", step, ok, err)
	}
}

// A unit test runs a function with waits to its end: each call continues from the wait of the call before.
func TestAwaitInALoop(t *testing.T) {
	t.Parallel()
	env := activitytest.New()
	call := func() (int, error) { return survey(env.Context(t.Context()), "x") }
	_, err := call()
	suspendedAt(t, err, "answer")
	if !env.Opened("answer") || env.Opened("answer#2") {
		t.Error("another waitpoint was opened")
	}
	env.Signal("answer", "other", answer{Yes: true})
	_, err = call()
	suspendedAt(t, err, "answer")
	env.Signal("answer", "answer", answer{Yes: true})
	env.Signal("answer#3", "answer", answer{})
	_, err = call()
	suspendedAt(t, err, "answer#2")
	env.Signal("answer#2", "answer", answer{Yes: true})
	yes, err := call()
	if yes != 2 || err != nil {
		t.Errorf("%d, %v", yes, err)
	}
	if frames := env.Frames(); len(frames) != 4 || string(frames[0].Payload) != `"asked about x: [token]"` {
		t.Errorf("frames %v", frames)
	}
}

func TestOnceIsRecorded(t *testing.T) {
	t.Parallel()
	env := activitytest.New()
	calls := 0
	run := func(ctx context.Context) ([]int, error) {
		var out []int
		for range 2 {
			n, err := activity.Step(ctx, "count", func(context.Context) (int, error) { calls++; return calls, nil })
			if err != nil {
				return nil, err
			}
			out = append(out, n)
		}
		_, err := activity.Step(ctx, "fail", func(context.Context) (int, error) { calls++; return 0, errors.New("not yet") })
		return out, err
	}
	for want := range 2 {
		out, err := run(env.Context(t.Context()))
		if err == nil || err.Error() != "not yet" || fmt.Sprint(out) != "[1 2]" || calls != 3+want {
			t.Errorf("%v, %v, %d calls", out, err, calls)
		}
	}
	if out, err := run(t.Context()); err == nil || fmt.Sprint(out) != "[5 6]" {
		t.Errorf("without steps: %v, %v", out, err)
	}
	_, err := activity.Step(env.Context(t.Context()), "count", func(context.Context) (string, error) { return "", nil })
	if !activitytest.IsNonRetryable(err) || activitytest.CategoryOf(err) != "decode" {
		t.Errorf("another type: %v", err)
	}
	_, err = activity.Step(env.Context(t.Context()), "new", func(context.Context) (chan int, error) { return make(chan int), nil })
	if !activitytest.IsNonRetryable(err) || activitytest.CategoryOf(err) != "encode" {
		t.Errorf("no JSON form: %v", err)
	}
	large := strings.Repeat("x", 1<<20)
	_, err = activity.Step(env.Context(t.Context()), "large", func(context.Context) (string, error) { return large, nil })
	if !activitytest.IsNonRetryable(err) || !strings.Contains(err.Error(), `step "large": result has 1048578 bytes, at most 1048576`) {
		t.Errorf("large: %v", err)
	}
}

func TestAwaitConditions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opts []activity.WaitOption
		sent string // "name/source …"
		want string // names of those that ended the wait; "" is still waiting
	}{
		"any":            {nil, "x/a", "x"},
		"named":          {[]activity.WaitOption{activity.Signals("y")}, "x/a y/a", "y"},
		"all":            {[]activity.WaitOption{activity.Signals("x", "y"), activity.MatchAll()}, "y/a y/a x/b", "y x"},
		"all, one short": {[]activity.WaitOption{activity.Signals("x", "y"), activity.MatchAll()}, "y/a y/a", ""},
		"two":            {[]activity.WaitOption{activity.AtLeast(2)}, "y/a y/a x/b", "y y"},
		"two sources":    {[]activity.WaitOption{activity.AtLeastDistinct(2)}, "y/a y/a x/b", "y x"},
		"decisive":       {[]activity.WaitOption{activity.AtLeastDistinct(2), activity.Decisive("no")}, "y/a no/a x/b", "y no"},
		"the last rule":  {[]activity.WaitOption{activity.AtLeastDistinct(2), activity.AtLeast(1)}, "y/a", "y"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := activitytest.New()
			for i, signal := range strings.Fields(tc.sent) {
				what, source, _ := strings.Cut(signal, "/")
				env.SignalFrom("w", what, source, i)
			}
			got, err := activity.AwaitSignals[int](env.Context(t.Context()), "w", tc.opts...)
			var names []string
			for _, signal := range got {
				names = append(names, signal.Name)
				if signal.Source == "" || time.Since(signal.Time()) > time.Minute {
					t.Errorf("signal %+v", signal)
				}
			}
			if strings.Join(names, " ") != tc.want {
				t.Errorf("got %v, %v", names, err)
			}
			if tc.want == "" {
				suspendedAt(t, err, "w")
			}
		})
	}
}

func TestAwaitTimesOut(t *testing.T) {
	t.Parallel()
	env := activitytest.New()
	env.TimeOut("w")
	_, err := activity.Await[int](env.Context(t.Context()), "w", activity.Timeout(time.Second, activity.Escalate))
	suspendedAt(t, err, "w")
	_, err = activity.Await[int](env.Context(t.Context()), "w", activity.Timeout(time.Second, activity.ResumeOnTimeout))
	if !errors.Is(err, activity.ErrWaitTimedOut) {
		t.Errorf("got %v", err)
	}
}

// Invalid calls fail at once, and are not retried.
func TestAwaitFaults(t *testing.T) {
	t.Parallel()
	env := activitytest.New()
	env.Signal("text", "x", "text")
	with := env.Context(t.Context())
	for want, try := range map[string]func() error{
		"there is no worker":                     func() error { _, err := activity.Await[int](t.Context(), "w"); return err },
		`await "a b": name`:                      func() error { _, err := activity.Await[int](with, "a b"); return err },
		"2000 signals are waited for":            func() error { _, err := activity.Await[int](with, "w", activity.AtLeast(2000)); return err },
		"payload does not decode into int":       func() error { _, err := activity.Await[int](with, "text"); return err },
		`step "a#2": name "a#2" has the char`:    func() error { _, err := activity.Step(with, "a#2", one); return err },
		`open waitpoint "w": there is no worker`: func() error { _, err := activity.OpenWaitpoint(t.Context(), "w", 0); return err },
		`open waitpoint "w": within -1ns: must `: func() error { _, err := activity.OpenWaitpoint(with, "w", -1); return err },
	} {
		err := try()
		if err == nil || !strings.Contains(err.Error(), want) || !activitytest.IsNonRetryable(err) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	gone, cancel := context.WithCancelCause(with)
	cause := errors.New("gone")
	cancel(cause)
	if _, err := activity.Await[int](gone, "w"); err != cause {
		t.Errorf("after the context has ended: %v", err)
	}
	if err := activity.Emit(gone, activity.Frame{Kind: "log", Payload: 1}); err != cause {
		t.Errorf("after the context has ended: %v", err)
	}
}

func one(context.Context) (int, error) { return 1, nil }

func TestEmitFaults(t *testing.T) {
	t.Parallel()
	for want, payload := range map[string]any{
		`emit "log": payload has 65537 bytes, at most 65536 are allowed`: make([]byte, 64<<10+1),
		`emit "log": payload of type chan int does not encode`:           make(chan int),
	} {
		if err := activity.Emit(t.Context(), activity.Frame{Kind: "log", Payload: payload}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if err := activity.Emit(t.Context(), activity.Frame{Kind: "a b", Payload: 1}); err == nil || !strings.Contains(err.Error(), "name") {
		t.Errorf("got %v", err)
	}
	if err := activity.Emit(t.Context(), activity.Frame{Kind: "log", Payload: 1}); err != nil {
		t.Errorf("outside a worker: %v", err)
	}
	env := activitytest.New()
	raw := []byte("raw")
	if err := activity.Emit(env.Context(t.Context()), activity.Frame{Kind: "log", Payload: raw}); err != nil {
		t.Fatal(err)
	}
	raw[0] = 'x'
	if got := string(env.Frames()[0].Payload); got != "raw" {
		t.Errorf("the frame became %q", got)
	}
}

// However a token is shown, its text does not appear.
func TestTokenIsRedacted(t *testing.T) {
	t.Parallel()
	const text = "c2VjcmV0"
	token := activity.NewToken(text)
	if token.Reveal() != text || token.IsZero() || !(activity.Token{}).IsZero() {
		t.Error("the token is lost")
	}
	inside := struct {
		T activity.Token
		P *activity.Token
		M map[string]activity.Token
		u activity.Token
	}{token, &token, map[string]activity.Token{"k": token}, token}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
		for _, value := range []any{token, &token, inside, []activity.Token{token}, fmt.Errorf("e: %v", token)} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("m", "token", token, "inside", inside, slog.Any("p", &token))
	}
	encoded, err := json.Marshal(inside)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(encoded)
	hexed := fmt.Sprintf("%x", text)
	if shown := out.String(); strings.Contains(shown, text) || strings.Contains(strings.ToLower(shown), hexed) {
		t.Errorf("the token shows:\n%s", shown)
	}
	//nolint:staticcheck // the test is that it cannot be read
	if err := json.Unmarshal([]byte(`"x"`), &token); err == nil {
		t.Error("a token was read from JSON")
	}
}
