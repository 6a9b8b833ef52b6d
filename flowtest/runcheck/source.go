package runcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Open yields the runs of the client's namespace that are not over, child runs included, with their values, in pages of
// 500 nodes. A run that ends during the call may be left out. The error is one of Client.Runs or RunRef.Describe: in
// contract mode ErrNotInContract.
func Open(ctx context.Context, client *runtime.Client) iter.Seq2[*runtime.RunDescription, error] {
	return func(yield func(*runtime.RunDescription, error) bool) {
		query := runtime.RunQuery{States: []fabrictype.RunState{fabrictype.RunRunning}, Children: true}
		for run, err := range client.Runs(ctx, query) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !describePages(ctx, client.Run(run.Flow, run.Run), yield) {
				return
			}
		}
	}
}

// describePages yields the pages of one run. A run that was purged has none.
func describePages(ctx context.Context, run *runtime.RunRef, yield func(*runtime.RunDescription, error) bool) bool {
	for cursor := ""; ; {
		d, err := run.Describe(ctx, runtime.DescribeOptions{
			Values: true, ValueBytes: describe.MaxValueBytes, Cursor: cursor, Nodes: describe.MaxPage,
		})
		if errors.Is(err, runtime.ErrNotFound) {
			return true
		}
		if !yield(d, err) || err != nil {
			return false
		}
		if cursor = d.Next; cursor == "" {
			return true
		}
	}
}

// Export writes runs as lines of JSON, for Read. The file has the inputs and results of the runs: keep it accordingly.
func Export(w io.Writer, runs iter.Seq2[*runtime.RunDescription, error]) error {
	lines := json.NewEncoder(w)
	for d, err := range runs {
		if err == nil {
			err = lines.Encode(d)
		}
		if err != nil {
			return fmt.Errorf("export runs: %w", err)
		}
	}
	return nil
}

// Read yields the runs that Export has written.
func Read(r io.Reader) iter.Seq2[*runtime.RunDescription, error] {
	return func(yield func(*runtime.RunDescription, error) bool) {
		lines := json.NewDecoder(r)
		for i := 1; ; i++ {
			d := new(runtime.RunDescription)
			err := lines.Decode(d)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("exported run %d: %w", i, err))
				return
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}
