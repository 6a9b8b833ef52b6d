package activity_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

type in struct {
	N int `json:"n"`
}

type out struct {
	Value float64 `json:"value"`
}

var _ activity.Handler = (*activity.Activity[in, out])(nil)

func half(_ context.Context, v in) (out, error) { return out{Value: float64(v.N) / 2}, nil }

func TestDefaults(t *testing.T) {
	t.Parallel()
	a := activity.New("half", half)
	if err := a.Err(); err != nil {
		t.Fatal(err)
	}
	want := activityspec.Options{
		Retry: activityspec.RetryPlan{Attempts: 5, First: time.Second, Max: time.Minute, Factor: 2, JitterPermille: 100},
		Lane:  "default",
	}
	if got := activityspec.OptionsOf(a.Internal()); !reflect.DeepEqual(got, want) {
		t.Errorf("options %+v, want %+v", got, want)
	}
	if a.Name() != "half" || len(a.Aliases()) != 0 || a.Codec().Name() != "json" {
		t.Errorf("name %q, aliases %q, codec %q", a.Name(), a.Aliases(), a.Codec().Name())
	}
	if a.InputType() != reflect.TypeFor[in]() || a.OutputType() != reflect.TypeFor[out]() {
		t.Errorf("types %v and %v", a.InputType(), a.OutputType())
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	a := activity.New("half", half,
		activity.Retry(activity.RetryPolicy{Attempts: 1}),
		activity.StartToClose(1500*time.Microsecond),
		activity.HeartbeatTimeout(time.Second),
		activity.ScheduleToStart(time.Hour),
		activity.Lane("fast"),
		activity.Priority(9000),
		activity.Capabilities("ssd", "gpu"), activity.Capabilities("gpu"),
		activity.Alias("old"), activity.Alias("older"),
		activity.WithCodec(textCodec{}),
	)
	if err := a.Err(); err != nil {
		t.Fatal(err)
	}
	want := activityspec.Options{
		Retry:        activityspec.RetryPlan{Attempts: 1},
		StartToClose: 2 * time.Millisecond, HeartbeatTimeout: time.Second, ScheduleToStart: time.Hour,
		Lane: "fast", Priority: 9000, Capabilities: []string{"gpu", "ssd"},
	}
	if got := activityspec.OptionsOf(a.Internal()); !reflect.DeepEqual(got, want) {
		t.Errorf("options %+v, want %+v", got, want)
	}
	if got := a.Aliases(); !slices.Equal(got, []string{"old", "older"}) {
		t.Errorf("aliases %q", got)
	}
	activityspec.OptionsOf(a.Internal()).Capabilities[0] = "changed"
	a.Aliases()[0] = "changed"
	if activityspec.OptionsOf(a.Internal()).Capabilities[0] != "gpu" || a.Aliases()[0] != "old" {
		t.Error("the results of the methods are shared with the activity")
	}
}

func TestDeclarationFaults(t *testing.T) {
	t.Parallel()
	many := make([]string, 257)
	for i := range many {
		many[i] = "c" + strings.Repeat("x", i)
	}
	for name, tc := range map[string]struct {
		handler activity.Handler
		want    string
	}{
		"nil":             {(*activity.Activity[in, out])(nil), "activity is nil"},
		"zero":            {&activity.Activity[in, out]{}, "not made by New"},
		"no function":     {activity.New[in, out]("x", nil), "function is nil"},
		"no name":         {activity.New("", half), "name is empty"},
		"long name":       {activity.New(strings.Repeat("x", 129), half), "129 bytes long, the limit is 128"},
		"name":            {activity.New("a b", half), `character ' '`},
		"nil option":      {activity.New("x", half, nil), "option 1 is nil"},
		"attempts":        {activity.New("x", half, activity.Retry(activity.RetryPolicy{Attempts: -1})), "-1 attempts"},
		"factor":          {activity.New("x", half, activity.Retry(activity.RetryPolicy{Factor: 0.5})), "factor 0.5"},
		"factor NaN":      {activity.New("x", half, activity.Retry(activity.RetryPolicy{Factor: math.NaN()})), "factor NaN"},
		"first":           {activity.New("x", half, activity.Retry(activity.RetryPolicy{First: -1, Factor: 1})), "first delay -1ms is not positive"},
		"max":             {activity.New("x", half, activity.Retry(activity.RetryPolicy{First: time.Hour, Max: time.Second})), "shorter than the first"},
		"jitter":          {activity.New("x", half, activity.Retry(activity.RetryPolicy{JitterPermille: 1001})), "jitter of 1001"},
		"limits":          {activity.New("x", half, activity.Limit("a", activity.LimitConfig{AtMost: 1, Per: 0, AtOnce: -1})), "limit \"a\": at most 1 per"},
		"timeout":         {activity.New("x", half, activity.StartToClose(-1)), "start-to-close timeout -1ms is negative"},
		"heartbeat":       {activity.New("x", half, activity.HeartbeatTimeout(-time.Hour)), "heartbeat timeout -1h0m0s is negative"},
		"schedule":        {activity.New("x", half, activity.ScheduleToStart(-time.Hour)), "schedule-to-start timeout"},
		"no lane":         {activity.New("x", half, activity.Lane("")), "lane"},
		"lane":            {activity.New("x", half, activity.Lane("a b")), "or a space"},
		"long lane":       {activity.New("x", half, activity.Lane(strings.Repeat("x", 65))), "65 bytes"},
		"priority":        {activity.New("x", half, activity.Priority(9001)), "priority 9001 is outside 0 to 9000"},
		"no capability":   {activity.New("x", half, activity.Capabilities("")), "capability is empty"},
		"capability":      {activity.New("x", half, activity.Capabilities("a,b")), "comma"},
		"capabilities":    {activity.New("x", half, activity.Capabilities(many...)), "257 capabilities"},
		"capability size": {activity.New("x", half, activity.Capabilities(many[:100]...)), "the limit is 4096"},
		"alias":           {activity.New("x", half, activity.Alias("")), "alias: name is empty"},
		"own alias":       {activity.New("x", half, activity.Alias("x")), "the name itself"},
		"twice":           {activity.New("x", half, activity.Alias("y", "y")), "given twice"},
		"nil codec":       {activity.New("x", half, activity.WithCodec(nil)), "codec is nil"},
		"codec name":      {activity.New("x", half, activity.WithCodec(namedCodec{})), "codec: name is empty"},
		"chan":            {activity.New("x", func(context.Context, chan int) (out, error) { return out{}, nil }), "input type chan int has no JSON form"},
		"func":            {activity.New("x", func(context.Context, in) (func(), error) { return nil, nil }), "output type func() has no JSON form"},
		"interface":       {activity.New("x", func(context.Context, error) (out, error) { return out{}, nil }), "interface with methods"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.handler.Err()
			if !errors.Is(err, activity.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want ErrInvalid with %q", err, tc.want)
			}
			if err := activityspec.OptionsOf(tc.handler.Internal()).Validate(); err != nil {
				t.Errorf("the options are invalid all the same: %v", err)
			}
			if _, err := tc.handler.Invoke(t.Context(), []byte("{}")); !errors.Is(err, activity.ErrInvalid) || !activitytest.IsNonRetryable(err) {
				t.Errorf("Invoke returned %v", err)
			}
			_, _ = tc.handler.Name(), tc.handler.Codec().Name()
			_, _ = tc.handler.Aliases(), tc.handler.InputType()
		})
	}
}

func TestAllDeclarationFaultsAtOnce(t *testing.T) {
	t.Parallel()
	err := activity.New[in, out]("a b", nil, activity.Lane(""), activity.Priority(-1), activity.WithCodec(nil)).Err()
	for _, want := range []string{"character", "function is nil", "lane", "priority -1", "codec is nil"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestInvoke(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for name, tc := range map[string]struct {
		handler     activity.Handler
		input, want string
		check       func(error) bool
	}{
		"works":      {activity.New("half", half), `{"n":3}`, `{"value":1.5}`, nil},
		"new fields": {activity.New("half", half), `{"n":3,"later":1}`, `{"value":1.5}`, nil},
		"text":       {activity.New("t", func(_ context.Context, s string) (string, error) { return s + "<&>", nil }), `"a"`, `"a<&>"`, nil},
		"own error":  {activity.New("f", func(context.Context, in) (out, error) { return out{}, failed }), `{}`, "", func(err error) bool { return err == failed }},
		"empty":      {activity.New("half", half), ``, "", isDecode},
		"trailing":   {activity.New("half", half), `{"n":3} 1`, "", isDecode},
		"wrong type": {activity.New("half", half), `{"n":"3"}`, "", isDecode},
		"not a number": {activity.New("n", func(context.Context, in) (out, error) { return out{Value: math.NaN()}, nil }), `{}`, "",
			func(err error) bool {
				var e *activityspec.EncodeError
				return errors.As(err, &e) && e.Activity == "n" && e.Type == "activity_test.out" &&
					activitytest.IsNonRetryable(err) && activitytest.CategoryOf(err) == "encode"
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.handler.Invoke(t.Context(), []byte(tc.input))
			if string(got) != tc.want || (err == nil) != (tc.check == nil) || (tc.check != nil && !tc.check(err)) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func isDecode(err error) bool {
	var e *activityspec.DecodeError
	return errors.As(err, &e) && e.Activity == "half" && e.Type == "activity_test.in" && e.Codec == "json" &&
		strings.Contains(err.Error(), `"half"`) && strings.Contains(err.Error(), "activity_test.in") &&
		activitytest.IsNonRetryable(err) && activitytest.CategoryOf(err) == "decode" && errors.Unwrap(err) != nil
}

func TestCall(t *testing.T) {
	t.Parallel()
	got, err := activity.New("half", half).Call(t.Context(), in{N: 5})
	if got.Value != 2.5 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := activity.New[in, out]("half", nil).Call(t.Context(), in{}); !errors.Is(err, activity.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"a": true, "A.b_c-9": true, "-": true, "..": false, ".": false, strings.Repeat("x", 128): true,
		"": false, " ": false, "a/b": false, "é": false, "a\x00": false, "a\n": false, "\xff": false, strings.Repeat("x", 129): false,
	} {
		if err := activityspec.CheckName(name); (err == nil) != ok {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

func TestMilliseconds(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for d, want := range map[time.Duration]time.Duration{
		0: 0, 1: ms, ms: ms, ms + 1: 2 * ms, 1500 * time.Microsecond: 2 * ms, -1: -ms, -ms: -ms, -ms - 1: -ms,
		math.MaxInt64: time.Duration(math.MaxInt64).Truncate(ms),
		math.MinInt64: time.Duration(math.MinInt64).Truncate(ms),
	} {
		if got := activityspec.Milliseconds(d); got != want {
			t.Errorf("%d: got %d, want %d", d, got, want)
		}
	}
}

func TestJSONCodec(t *testing.T) {
	t.Parallel()
	c := activity.JSON{}
	for _, bad := range []any{math.NaN(), math.Inf(1), make(chan int), func() {}, complex(1, 2)} {
		if data, err := c.Encode(bad); err == nil {
			t.Errorf("%T encodes as %q", bad, data)
		}
	}
	for _, bad := range []string{"", " ", "1 2", "{}x", "nul", `{"a":1}}`} {
		var v any
		if err := c.Decode([]byte(bad), &v); err == nil {
			t.Errorf("%q decodes as %v", bad, v)
		}
	}
	data, err := c.Encode(map[string]string{"b": "<>&", "a": "\n"})
	if string(data) != `{"a":"\n","b":"<>&"}` || err != nil {
		t.Errorf("got %s, %v", data, err)
	}
}

type textCodec struct{}

func (textCodec) Name() string                 { return "text" }
func (textCodec) Encode(v any) ([]byte, error) { return []byte(v.(string)), nil }
func (textCodec) Decode(b []byte, v any) error { *v.(*string) = string(b); return nil }

type namedCodec struct{ activity.JSON }

func (namedCodec) Name() string { return "" }
