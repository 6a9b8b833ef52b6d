package activity_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
)

// The function gets several items at once in a worker, and one at a time otherwise.
func ExampleNewBatch() {
	upper := activity.NewBatch("upper", func(_ context.Context, texts []string) ([]activity.ItemResult[string], error) {
		results := make([]activity.ItemResult[string], len(texts))
		for i, text := range texts {
			results[i].Value = strings.ToUpper(text)
		}
		return results, nil
	}, activity.BatchSize(50), activity.BatchWait(20*time.Millisecond))
	fmt.Println(upper.Call(context.Background(), "a"))
	// Output: A <nil>
}
