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

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// BudgetUse lists the executions that use a budget at present. The engine records only the sum that was spent, not the
// executions that spent it.
type BudgetUse struct {
	// Reserving and Waiting are how many reservations are open, and how many executions wait for the budget.
	Reserving, Waiting int
	// Reserved are the largest reservations among those that were read.
	Reserved []BudgetReservation
	// Queue are executions that wait: by priority and then by age, over all partitions.
	Queue []PlaceHolder
}

// BudgetReservation is a reservation of an execution.
type BudgetReservation struct {
	ID        enginecore.ExecutionID
	Dimension string
	Amount    int64
	RunOf
}

// BudgetUse returns the largest reservations of a budget and the executions that wait for it: at most `most` of each,
// from 1 to 500; 0 means 50. It reads and changes nothing; the parts are read at different moments. A budget that does
// not exist has neither. The error wraps ErrInvalid for invalid arguments.
func (r *Reader) BudgetUse(ctx context.Context, id enginecore.BudgetID, most int) (BudgetUse, error) {
	p, err := r.core.Partitioning().BudgetPartition(id)
	if err != nil {
		return BudgetUse{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if most < 0 || most > maxHolders {
		return BudgetUse{}, fmt.Errorf("%w: most: %d is not between 0 and %d", ErrInvalid, most, maxHolders)
	}
	most = cmp.Or(most, 50)
	use, err := r.budgetUse(ctx, p, id, most)
	if err != nil {
		return BudgetUse{}, fmt.Errorf("read the use of budget %s: %w", id, err)
	}
	return use, nil
}

func (r *Reader) budgetUse(
	ctx context.Context, p keyspace.Partition, id enginecore.BudgetID, most int,
) (BudgetUse, error) {
	b := r.client.B
	commands := []rueidis.Completed{
		b().Hlen().Key(r.keys.BudgetReservations(p, id)).Build(),
		b().Hscan().Key(r.keys.BudgetReservations(p, id)).Cursor(0).Count(maxHolders).Build(),
	}
	for _, of := range r.core.Partitioning().FlowPartitions() {
		key := r.keys.FfxBudgetWaiting(of, id)
		commands = append(commands, b().Zcard().Key(key).Build(),
			b().Zrange().Key(key).Min("0").Max(strconv.Itoa(most-1)).Withscores().Build())
	}
	results, err := r.read(ctx, commands...)
	if err != nil {
		return BudgetUse{}, err
	}
	now, err := r.core.Now(ctx)
	if err != nil {
		return BudgetUse{}, err
	}
	reserving, err0 := results[0].AsInt64()
	reserved, err1 := results[1].AsScanEntry()
	if err := errors.Join(err0, err1); err != nil {
		return BudgetUse{}, err
	}
	use := BudgetUse{Reserving: int(reserving), Reserved: reservationsOf(reserved.Elements)}
	use.Reserved = use.Reserved[:min(len(use.Reserved), most)]
	var waiting []rueidis.ZScore
	for i := 2; i < len(results); i += 2 {
		count, err0 := results[i].AsInt64()
		found, err1 := results[i+1].AsZScores()
		if err := errors.Join(err0, err1); err != nil {
			return BudgetUse{}, err
		}
		use.Waiting += int(count)
		waiting = append(waiting, found...)
	}
	use.Queue = queueOf(waiting, now, most)
	return use, r.nameUsers(ctx, &use)
}

// queueOf returns the first members of several indexes in the order of claims.
func queueOf(list []rueidis.ZScore, now time.Time, most int) []PlaceHolder {
	slices.SortFunc(list, func(a, b rueidis.ZScore) int {
		return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(a.Member, b.Member))
	})
	var queue []PlaceHolder
	for _, z := range list[:min(len(list), most)] {
		w := waiterOf(z, now)
		queue = append(queue, PlaceHolder{
			ID: enginecore.ExecutionID(w.id), Priority: w.priority, Since: time.UnixMilli(int64(w.created)).UTC(),
		})
	}
	return queue
}

// reservationsOf reads the ids and values of reservations: "<execution>/<epoch>/<name>", and "<amount> <dimension>".
// The largest come first.
func reservationsOf(pairs []string) []BudgetReservation {
	var list []BudgetReservation
	for i := 0; i+1 < len(pairs); i += 2 {
		execution, _, found := strings.Cut(pairs[i], "/")
		text, dimension, spaced := strings.Cut(pairs[i+1], " ")
		amount, err := strconv.ParseInt(text, 10, 64)
		if !found || !spaced || err != nil {
			continue
		}
		list = append(list, BudgetReservation{
			ID: enginecore.ExecutionID(execution), Dimension: dimension, Amount: amount,
		})
	}
	slices.SortFunc(list, func(a, b BudgetReservation) int {
		return cmp.Or(cmp.Compare(b.Amount, a.Amount), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Dimension, b.Dimension))
	})
	return list
}

// nameUsers completes a use by the runs that its executions belong to.
func (r *Reader) nameUsers(ctx context.Context, use *BudgetUse) error {
	if err := r.nameHolders(ctx, use.Queue); err != nil {
		return err
	}
	ids := make([]enginecore.ExecutionID, len(use.Reserved))
	for i := range use.Reserved {
		ids[i] = use.Reserved[i].ID
	}
	runs, err := r.runsOf(ctx, ids)
	if err != nil {
		return err
	}
	for i := range use.Reserved {
		use.Reserved[i].RunOf = runs[ids[i]]
	}
	return nil
}
