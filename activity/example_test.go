package activity_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
)

type Page struct {
	URL string `json:"url"`
}

type Size struct {
	Bytes int `json:"bytes"`
}

func Measure(ctx context.Context, p Page) (Size, error) {
	if p.URL == "" {
		return Size{}, activity.NonRetryable(errors.New("no URL"))
	}
	if err := activity.Heartbeat(ctx); err != nil {
		return Size{}, err
	}
	return Size{Bytes: len(p.URL)}, nil
}

func Example() {
	measure := activity.New("page.measure", Measure,
		activity.StartToClose(time.Minute),
		activity.HeartbeatTimeout(10*time.Second),
		activity.Retry(activity.RetryPolicy{First: time.Second, Max: time.Minute, Attempts: 8}),
	)
	if err := measure.Err(); err != nil {
		fmt.Println(err)
		return
	}
	size, err := measure.Call(context.Background(), Page{URL: "https://example.org"})
	fmt.Println(size.Bytes, err)
	// Output: 19 <nil>
}

// A declaration never panics: it keeps the fault, which flow.Builder.Build and workers report.
func ExampleActivity_Err() {
	measure := activity.New("page measure", Measure, activity.Priority(10_000))
	err := measure.Err()
	fmt.Println(errors.Is(err, activity.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true
	// invalid activity "page measure": name: name "page measure" has the character ' '; allowed are A-Z a-z 0-9 . _ -
	// priority 10000 is outside 0 to 9000
}

func ExampleNonRetryable() {
	err := fmt.Errorf("order 7: %w", activity.NonRetryable(errors.New("card refused")))
	fmt.Println(err, activitytest.IsNonRetryable(err))
	// Output: order 7: card refused true
}

func ExampleRetryAfter() {
	err := activity.Category(activity.RetryAfter(errors.New("429"), 30*time.Second), "quota")
	fmt.Println(err, activitytest.IsNonRetryable(err), activitytest.CategoryOf(err))
	// Output: 429 false quota
}

// Info is there in a worker only.
func ExampleInfo() {
	_, ok := activity.Info(context.Background())
	fmt.Println(ok)
	// Output: false
}
