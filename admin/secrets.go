package admin

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Secret is what the tokens of waitpoints are signed with.
type Secret struct {
	// KID is its id: not empty, without ':'.
	KID string
	// Hex is the secret, an even number of hex digits.
	Hex string
}

func (s Secret) check() error {
	switch {
	case s.KID == "" || strings.Contains(s.KID, ":"):
		return fault("kid", "%.40q must not be empty or contain a colon", s.KID)
	case s.Hex == "":
		return fault("secret", "must not be empty")
	}
	if _, err := hex.DecodeString(s.Hex); err != nil {
		return fault("secret", "is not hex") // err shows parts of it
	}
	return nil
}

// SecretRotation is what has become of a rotation.
type SecretRotation struct {
	// Rotated counts the partitions that sign with the secret since this call, Unchanged those that did before.
	Rotated, Unchanged int
	// Failed are the partitions that still sign with another one, and why.
	Failed map[enginecore.Partition]error
}

// rotateConcurrency bounds how many partitions are rotated at a time.
const rotateConcurrency = 16

// RotateSecret makes a secret the one that tokens are signed with, in every partition, each in an atomic step of its own.
// Tokens that were signed with the one before stay valid for the grace time.
//
// Where partitions fail, the error wraps the first one's, and SecretRotation.Failed lists them; call again with the same
// secret to go on. A secret id that is known with another secret is refused: enginecore.ErrRotationConflict.
func (c *Client) RotateSecret(ctx context.Context, secret Secret, grace time.Duration) (SecretRotation, error) {
	if grace < 0 {
		return SecretRotation{}, fault("grace", "%s is negative", grace)
	}
	if err := secret.check(); err != nil {
		return SecretRotation{}, err
	}
	partitions := c.core.Partitioning().FlowPartitions()
	rotation := SecretRotation{Failed: make(map[enginecore.Partition]error)}
	var mu sync.Mutex
	var rotating errgroup.Group
	rotating.SetLimit(rotateConcurrency)
	for _, p := range partitions {
		rotating.Go(func() error {
			reply, err := c.core.RotateWaitpointHMACSecret(ctx, enginerpc.RotateWaitpointHMACSecretCall{
				Partition: p, NewKID: secret.KID, NewSecretHex: secret.Hex, Grace: grace,
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
	return rotation, fmt.Errorf("rotate secrets: %d of %d partitions failed, the first is %s: %w", len(failed), len(partitions),
		failed[0].Tag(), rotation.Failed[failed[0]])
}
