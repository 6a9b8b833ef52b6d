package admin

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
)

// Waitpoint is an open waitpoint of an execution.
type Waitpoint struct {
	ID enginecore.WaitpointID
	// Key is the name that the creator of the waitpoint chose.
	Key string
	// State is active, or pending if the waitpoint was made before its wait.
	State string
	// Token authorizes signals to the waitpoint. Handle it like a password.
	Token string
	// Signals are the names of the signals that count; empty means that all names count.
	Signals []string
	// CreatedAt, ActivatedAt and ExpiresAt are zero when unset.
	CreatedAt, ActivatedAt, ExpiresAt time.Time
}

var waitpointFields = []string{"state", "waitpoint_key", "waitpoint_token", "created_at", "activated_at", "expires_at"}

// waitpointPage is how many waitpoint ids are read at a time.
const waitpointPage = 100

// maxMatchers bounds the names of signals that are read of one waitpoint.
const maxMatchers = 1000

// Waitpoints returns the open waitpoints of an execution with their tokens, sorted by id. It uses several reads, and
// may return a change in part. A pending waitpoint of another FlowFabric tool is returned only once its wait begins.
// The error wraps enginecore.ErrExecutionNotFound. For the waitpoints of a run, use runtime.RunRef.Waitpoints.
func (c *Client) Waitpoints(ctx context.Context, id enginecore.ExecutionID) ([]Waitpoint, error) {
	list, err := c.waitpoints(ctx, id)
	return list, of(err, "waitpoints of", "execution", string(id))
}

func (c *Client) waitpoints(ctx context.Context, id enginecore.ExecutionID) ([]Waitpoint, error) {
	if _, err := c.coreOf(ctx, id); err != nil {
		return nil, err
	}
	p, err := keyspace.PartitionOf(id)
	if err != nil {
		return nil, err
	}
	var ids []string
	for cursor := uint64(0); ; {
		entry, err := c.client.Do(ctx,
			c.client.B().Sscan().Key(c.keys.ExecWaitpoints(id)).Cursor(cursor).Count(waitpointPage).Build(),
		).AsScanEntry()
		if err != nil {
			return nil, readError(ctx, err)
		}
		ids = append(ids, entry.Elements...)
		if cursor = entry.Cursor; cursor == 0 {
			break
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var open []Waitpoint
	for page := range slices.Chunk(ids, waitpointPage) {
		some, err := c.openWaitpoints(ctx, p, typed[enginecore.WaitpointID](page))
		if err != nil {
			return nil, err
		}
		open = append(open, some...)
	}
	return open, nil
}

func (c *Client) openWaitpoints(
	ctx context.Context, p keyspace.Partition, ids []enginecore.WaitpointID,
) ([]Waitpoint, error) {
	var commands []rueidis.Completed
	for _, id := range ids {
		commands = append(commands, c.hmget(c.keys.WaitpointRecord(p, id), waitpointFields),
			c.client.B().Hget().Key(c.keys.WaitpointCondition(p, id)).Field("total_matchers").Build())
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return nil, err
	}
	var open []Waitpoint
	var matchers []int64
	for i, id := range ids {
		r := hashrecord.Read(results[2*i], waitpointFields)
		state := r["state"]
		waiting := state == recordstate.WaitpointPending || state == recordstate.WaitpointActive
		if !waiting || r["waitpoint_token"] == "" {
			continue
		}
		open = append(open, Waitpoint{
			ID: id, Key: r["waitpoint_key"], State: state, Token: r["waitpoint_token"], CreatedAt: r.Time("created_at"),
			ActivatedAt: r.Time("activated_at"), ExpiresAt: r.Time("expires_at"),
		})
		count, _ := results[2*i+1].AsInt64() // 0 without one
		matchers = append(matchers, min(count, maxMatchers))
	}
	return open, c.nameSignals(ctx, p, open, matchers)
}

// nameSignals fills in which signals waitpoints wait for.
func (c *Client) nameSignals(ctx context.Context, p keyspace.Partition, open []Waitpoint, matchers []int64) error {
	var commands []rueidis.Completed
	var whose []int
	for i, count := range matchers {
		if count == 0 {
			continue
		}
		fields := make([]string, count)
		for j := range fields {
			fields[j] = "matcher:" + strconv.Itoa(j) + ":name"
		}
		commands = append(commands, c.hmget(c.keys.WaitpointCondition(p, open[i].ID), fields))
		whose = append(whose, i)
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return err
	}
	for j, i := range whose {
		values, _ := results[j].ToArray() // none when it is gone
		for _, value := range values {
			if name, err := value.ToString(); err == nil && name != "" {
				open[i].Signals = append(open[i].Signals, name)
			}
		}
	}
	return nil
}

// CloseWaitpoint closes an open waitpoint of an execution and its condition, in one atomic step, so that signals to it
// are refused. An execution that waits there keeps waiting until its timeout. The error wraps
// enginecore.ErrWaitpointNotFound or enginecore.ErrWaitpointNotOpen.
func (c *Client) CloseWaitpoint(
	ctx context.Context, id enginecore.ExecutionID, waitpoint enginecore.WaitpointID, reason string,
) error {
	if err := errors.Join(c.checkID(id), checkReason(reason)); err != nil {
		return err
	}
	err := c.audited(ctx, auditlink.CloseWaitpoint, string(waitpoint), reason, func() error {
		_, err := c.core.CloseWaitpoint(ctx,
			enginerpc.CloseWaitpointCall{ExecutionID: id, WaitpointID: waitpoint, Reason: reason})
		return err
	})
	return of(err, "close", "waitpoint", string(waitpoint))
}

func checkSecret(s enginecore.WaitpointSecret) error {
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

// RotateSecret makes a secret the one that signs tokens, in every partition, each in a separate atomic step. Tokens
// signed with the previous secret stay valid for the grace time. The secret must be set; since other programs may have
// chosen it, its KID may be any text without ':', and it may have any even number of digits.
//
// When partitions fail, the error wraps the error of the first one, and Failed of the result lists all; repeat the
// call with the same secret to continue. A secret id that is known with another secret is refused with
// enginecore.ErrRotationConflict.
func (c *Client) RotateSecret(
	ctx context.Context, secret enginecore.WaitpointSecret, grace time.Duration,
) (enginecore.SecretRotation, error) {
	if grace < 0 {
		return enginecore.SecretRotation{}, fault("grace", "%s is negative", grace)
	}
	if err := checkSecret(secret); err != nil {
		return enginecore.SecretRotation{}, err
	}
	var rotation enginecore.SecretRotation
	err := c.audited(ctx, auditlink.RotateSecrets, secret.KID, grace.String(), func() error {
		changed, err := c.core.RotateSecret(ctx, secret.KID, secret.Hex, grace)
		rotation = enginecore.SecretRotation{
			KID: secret.KID, Rotated: changed.Rotated, Unchanged: changed.Unchanged, Failed: changed.Failed,
		}
		return err
	})
	return rotation, err
}
