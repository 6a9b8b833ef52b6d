package enginerpc

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// SecretRotation is the result of RotateSecret.
type SecretRotation struct {
	// Rotated counts the partitions that sign with the secret since this call, Unchanged those that did before.
	Rotated, Unchanged int
	// Failed has the tags of the partitions that still sign with another one, with the error of each.
	Failed map[string]error
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
	rotation := SecretRotation{Failed: make(map[string]error)}
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
				rotation.Failed[p.Tag()] = err
			case reply.Outcome == "rotated":
				rotation.Rotated++
			default:
				rotation.Unchanged++
			}
			return nil
		})
	}
	_ = rotating.Wait() // the faults are gathered one by one
	for _, p := range partitions {
		if err := rotation.Failed[p.Tag()]; err != nil {
			return rotation, fmt.Errorf("rotate secrets: %d of %d partitions failed, the first is %s: %w",
				len(rotation.Failed), len(partitions), p.Tag(), err)
		}
	}
	return rotation, nil
}
