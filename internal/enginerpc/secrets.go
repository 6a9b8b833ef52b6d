package enginerpc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// SecretRotation is the result of RotateSecret.
type SecretRotation struct {
	// Rotated counts the partitions that sign with the secret since this call, Unchanged those that did before.
	Rotated, Unchanged int
	// Failed are the partitions that still sign with another one, and why.
	Failed map[enginecore.Partition]error
}

// rotateConcurrency bounds how many partitions are rotated at a time.
const rotateConcurrency = 16

// RotateSecret makes a secret the one that waitpoint tokens are signed with, in every flow partition, each in a
// separate atomic step. Tokens signed with the secret before it stay valid for the grace time. If partitions fail, the
// error wraps the error of the first one, and Failed lists them all.
func (conn *Conn) RotateSecret(
	ctx context.Context, kid, secretHex string, grace time.Duration,
) (SecretRotation, error) {
	if err := conn.connected(); err != nil {
		return SecretRotation{}, err
	}
	partitions := conn.Partitioning().FlowPartitions()
	rotation := SecretRotation{Failed: make(map[enginecore.Partition]error)}
	var mu sync.Mutex
	var rotating errgroup.Group
	rotating.SetLimit(rotateConcurrency)
	for _, p := range partitions {
		rotating.Go(func() error {
			reply, err := conn.RotateWaitpointHMACSecret(ctx, RotateWaitpointHMACSecretCall{
				Partition: p, NewKID: kid, NewSecretHex: secretHex, Grace: grace,
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				rotation.Failed[p] = err
			case reply.Outcome == "rotated":
				rotation.Rotated++
			default:
				rotation.Unchanged++
			}
			return nil
		})
	}
	_ = rotating.Wait() // the faults are gathered one by one
	if len(rotation.Failed) == 0 {
		return rotation, nil
	}
	failed := slices.SortedFunc(maps.Keys(rotation.Failed), func(x, y enginecore.Partition) int { return int(x.Index) - int(y.Index) })
	return rotation, fmt.Errorf("rotate secrets: %d of %d partitions failed, the first is %s: %w", len(failed),
		len(partitions),
		failed[0].Tag(), rotation.Failed[failed[0]])
}
