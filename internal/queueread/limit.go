package queueread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// LimitUse lists the executions that hold permits of a limit, and the executions that wait for one.
type LimitUse struct {
	// Holding is the number of executions with their own permits, Waiting the number of those that wait.
	Holding, Waiting int
	// Holders are the executions that have held a permit longest, among those that were read. Queue are the executions
	// that get the next permits, in their order.
	Holders, Queue []PlaceHolder
	// Pools are the permits that workers hold for several of their executions in turn.
	Pools []PlacePool
}

// PlaceHolder is an execution that holds a permit or waits for one.
type PlaceHolder struct {
	ID enginecore.ExecutionID
	// Since is when a holder got its permit, or when a waiting execution was created.
	Since time.Time
	// Priority is the priority of an execution that waits.
	Priority int
	RunOf
}

// PlacePool contains the permits that a worker holds.
type PlacePool struct {
	Worker enginecore.WorkerInstanceID
	Places int
	Since  time.Time
}

// maxHolders bounds the executions that LimitUse reads.
const maxHolders = 500

// LimitUse returns the holders of permits of a limit and the executions that wait for one: at most `most` of each,
// from 1 to 500; 0 means 50. If a limit has very many holders, only some of them are read. It reads and changes
// nothing; the parts are read at different moments. A limit that does not exist has neither. The error wraps
// ErrInvalid for invalid arguments.
func (r *Reader) LimitUse(ctx context.Context, id enginecore.QuotaPolicyID, most int) (LimitUse, error) {
	p, err := r.core.Partitioning().QuotaPartition(id)
	if err != nil {
		return LimitUse{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if most < 0 || most > maxHolders {
		return LimitUse{}, fmt.Errorf("%w: most: %d is not between 0 and %d", ErrInvalid, most, maxHolders)
	}
	fault := func(err error) (LimitUse, error) {
		return LimitUse{}, fmt.Errorf("read the use of limit %s: %w", id, err)
	}
	most = cmp.Or(most, 50)
	b := r.client.B
	results, err := r.read(ctx,
		b().Hlen().Key(r.keys.QuotaHolders(p, id)).Build(),
		b().Hscan().Key(r.keys.QuotaHolders(p, id)).Cursor(0).Count(maxHolders).Build(),
		b().Zcard().Key(r.keys.QuotaWaiting(p, id)).Build(),
		b().Zrange().Key(r.keys.QuotaWaiting(p, id)).Min("0").Max(strconv.Itoa(most-1)).Withscores().Build(),
		b().Hgetall().Key(r.keys.QuotaBlocks(p, id)).Build())
	if err != nil {
		return fault(err)
	}
	holding, err0 := results[0].AsInt64()
	held, err1 := results[1].AsScanEntry()
	waiting, err2 := results[2].AsInt64()
	queue, err3 := results[3].AsZScores()
	pools, err4 := results[4].AsStrMap()
	if err := errors.Join(err0, err1, err2, err3, err4); err != nil {
		return fault(err)
	}
	now, err := r.core.Now(ctx)
	if err != nil {
		return fault(err)
	}
	use := LimitUse{Holding: int(holding), Waiting: int(waiting), Pools: poolsOf(pools)}
	for i := 0; i+1 < len(held.Elements); i += 2 {
		use.Holders = append(use.Holders, PlaceHolder{
			ID: enginecore.ExecutionID(held.Elements[i]), Since: millis(word(held.Elements[i+1], 1)),
		})
	}
	slices.SortFunc(use.Holders, func(a, b PlaceHolder) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	use.Holders = use.Holders[:min(len(use.Holders), most)]
	for _, z := range queue {
		w := waiterOf(z, now)
		use.Queue = append(use.Queue, PlaceHolder{
			ID: enginecore.ExecutionID(word(w.id, 0)), Priority: w.priority,
			Since: time.UnixMilli(int64(w.created)).UTC(),
		})
	}
	if err := r.nameHolders(ctx, use.Holders, use.Queue); err != nil {
		return fault(err)
	}
	return use, nil
}

func poolsOf(blocks map[string]string) []PlacePool {
	var pools []PlacePool
	for worker, text := range blocks {
		places, _ := strconv.Atoi(word(text, 0))
		if places > 0 {
			pools = append(pools, PlacePool{
				Worker: enginecore.WorkerInstanceID(worker), Places: places, Since: millis(word(text, 2)),
			})
		}
	}
	slices.SortFunc(pools, func(a, b PlacePool) int { return cmp.Compare(a.Worker, b.Worker) })
	return pools
}

// nameHolders completes holders by the runs that they belong to.
func (r *Reader) nameHolders(ctx context.Context, lists ...[]PlaceHolder) error {
	var ids []enginecore.ExecutionID
	for _, list := range lists {
		for i := range list {
			ids = append(ids, list[i].ID)
		}
	}
	runs, err := r.runsOf(ctx, ids)
	if err != nil {
		return err
	}
	for _, list := range lists {
		for i := range list {
			list[i].RunOf = runs[list[i].ID]
		}
	}
	return nil
}

// word returns a word of a text, counted from 0 on; empty when there are fewer.
func word(text string, i int) string {
	words := strings.Fields(text)
	if i >= len(words) {
		return ""
	}
	return words[i]
}

// millis returns the time of a number of Unix milliseconds; zero for a text that is none.
func millis(text string) time.Time {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
