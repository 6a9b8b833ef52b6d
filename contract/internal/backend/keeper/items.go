package keeper

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// errMisplaced is the error of an entry of an index that is not an id of its partition.
var errMisplaced = errors.New("it is not the id of an execution of this partition")

const (
	// firstPutOff is the pause of an item after its first failure. It doubles with each failure in a row, up to
	// longestPutOff.
	firstPutOff   = time.Second
	longestPutOff = time.Minute
	// reportedRefusals is the number of refusals in a row from which on they are reported. One refusal mostly means
	// that another program was faster.
	reportedRefusals = 3
	// maxPutOff bounds the items of one task and partition that are put off. Those beyond it are tried at each visit.
	maxPutOff = 10_000
)

// putOffList names the items of one task in one partition, and in one lane if the task has an index for each lane.
type putOffList struct {
	partition keyspace.Partition
	task      engine.TaskID
	lane      enginecore.LaneID
}

// putOffItem is an item that is not tried before a time.
type putOffItem struct {
	failures int // in a row
	until    time.Time
}

// putOff remembers the items that keepers leave out for a while, so that they hold up no others. The zero value is
// empty; it is safe for concurrent use.
type putOff struct {
	mu    sync.Mutex
	lists map[putOffList]map[string]putOffItem
}

// count returns the number of items of a list that are remembered.
func (o *putOff) count(list putOffList) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(len(o.lists[list]))
}

// keepsOut reports whether an item is to be left out now.
func (o *putOff) keepsOut(list putOffList, item string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Now().Before(o.lists[list][item].until)
}

// failed puts an item off after a failure, and returns the number of its failures in a row.
func (o *putOff) failed(list putOffList, item string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	x := o.lists[list][item]
	x.until = time.Now().Add(min(longestPutOff, firstPutOff<<min(x.failures, 10)))
	x.failures++
	o.set(list, item, x)
	return x.failures
}

// wait puts an item off without a failure.
func (o *putOff) wait(list putOffList, item string, pause time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.set(list, item, putOffItem{until: time.Now().Add(pause)})
}

func (o *putOff) set(list putOffList, item string, x putOffItem) {
	if o.lists == nil {
		o.lists = make(map[putOffList]map[string]putOffItem)
	}
	items := o.lists[list]
	if items == nil {
		items = make(map[string]putOffItem)
		o.lists[list] = items
	}
	if len(items) < maxPutOff {
		items[item] = x
	}
}

// forget removes the items of a list whose pause is over and that are not among the due ones, which are all there are.
func (o *putOff) forget(list putOffList, due []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	items := o.lists[list]
	if len(items) == 0 {
		return
	}
	still := make(map[string]bool, len(due))
	for _, item := range due {
		still[item] = true
	}
	now := time.Now()
	for item, x := range items {
		if !still[item] && now.After(x.until) {
			delete(items, item)
		}
	}
	if len(items) == 0 {
		delete(o.lists, list)
	}
}

// list names the items of the current task.
func (t *tick) list() putOffList { return putOffList{t.call.Partition, t.task, t.lane} }

// failed puts an item of the current task off, so that the others are processed, and reports it. It returns the error
// if the engine could not be reached.
func (t *tick) failed(item string, err error) error {
	if err == nil || retry.IsUnavailable(err) {
		return err
	}
	failures := t.keeper.putOff.failed(t.list(), item)
	var refusal *enginecore.Error
	if !errors.As(err, &refusal) || failures >= reportedRefusals {
		t.reply.Faults = append(t.reply.Faults,
			enginerpc.ItemFault{Task: string(t.task), Item: item, Error: err.Error()})
	}
	return nil
}

// settle puts the items off whose errors are joined in err, and returns the other errors.
func (t *tick) settle(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var rest error
		for _, one := range joined.Unwrap() {
			rest = errors.Join(rest, t.settle(one))
		}
		return rest
	}
	var item *engine.ItemError
	if errors.As(err, &item) {
		return t.failed(item.Item, item.Err)
	}
	return err
}

// cores reads fields of executions for the current task. It puts off those that cannot be read, and returns the others.
func (t *tick) cores(
	ctx context.Context, ids []enginecore.ExecutionID, fields []string,
) ([]enginecore.ExecutionID, []engine.Record, error) {
	some, records, err := t.keeper.Readable(ctx, ids, fields)
	return some, records, t.settle(err)
}

// without returns the items of the current task that are not put off.
func (t *tick) without(items []string) []string {
	some := items[:0:0]
	for _, item := range items {
		if !t.keeper.putOff.keepsOut(t.list(), item) {
			some = append(some, item)
		}
	}
	return some
}
