package keycopy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Deployment is the data of a deployment with its mark.
type Deployment struct {
	*Store
	keys enginerpc.Keys
}

// NewDeployment returns the deployment of a prefix. The error comes from keyprefix.Check.
func NewDeployment(client rueidis.Client, prefix string) (*Deployment, error) {
	keys, err := enginerpc.NewKeys(prefix)
	if err != nil {
		return nil, err
	}
	return &Deployment{NewStore(client, keys), keys}, nil
}

// Protocol returns the text of the key of the protocol, empty if there is none, and the mark if that is one.
func (d *Deployment) Protocol(ctx context.Context) (text string, mark *enginerpc.Mark, err error) {
	text, err = d.client.Do(ctx, d.client.B().Get().Key(d.keys.FfxProtocol()).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, failed("GET", err)
	}
	if m, marked := enginerpc.ParseMark(text); marked {
		mark = &m
	}
	return text, mark, nil
}

// SetMark marks the deployment. It replaces the value of the key of the protocol, so the mark should contain that
// value.
func (d *Deployment) SetMark(ctx context.Context, m enginerpc.Mark) error {
	return d.setProtocol(ctx, m.Text())
}

// EndMark removes the mark and restores the protocol; with "", the key is removed.
func (d *Deployment) EndMark(ctx context.Context, protocol string) error {
	return d.setProtocol(ctx, protocol)
}

func (d *Deployment) setProtocol(ctx context.Context, text string) error {
	b, key := d.client.B(), d.keys.FfxProtocol()
	if text == "" {
		return failed("DEL", d.client.Do(ctx, b.Del().Key(key).Build()).Error())
	}
	return failed("SET", d.client.Do(ctx, b.Set().Key(key).Value(text).Build()).Error())
}

// Why data cannot be copied.
var (
	// ErrInUse means that programs use a deployment, or that its data change while they are read.
	ErrInUse = errors.New("the engine is in use")
	// ErrNotEmpty means that a deployment has data which would be replaced.
	ErrNotEmpty = errors.New("the engine has data")
	// ErrConflict means that a deployment has part in another move or restore, or in none where it should.
	ErrConflict = errors.New("the state of the engines does not allow this")
)

// How often, and at which distance, CheckUnused looks again whether connections are gone.
const (
	closingLooks = 20
	closingPause = 100 * time.Millisecond
)

// CheckEmpty returns an error that wraps ErrNotEmpty unless the deployment has no keys, or the numbers of partitions
// alone, which opening it stores.
func (d *Deployment) CheckEmpty(ctx context.Context) error {
	for keys, err := range d.Keys(ctx) {
		if err != nil {
			return err
		}
		for _, key := range keys {
			if key != d.keys.ConfigPartitions() {
				return fmt.Errorf("%w: there are keys with the prefix %s already, such as %q: name another engine, or "+
					"remove them", ErrNotEmpty, d.prefix, key)
			}
		}
	}
	return nil
}

// CheckUnused returns an error that wraps ErrInUse if programs are connected: workers, keepers, and clients that wait
// for something, all of which subscribe to channels. A client that does not wait is not found. CheckUnused repeats the
// check for a moment, until connections that are just being closed are gone. notSeen lists the checks that the rights
// of the connection's user do not allow.
func (d *Deployment) CheckUnused(ctx context.Context) (notSeen []string, err error) {
	u, err := d.findUsers(ctx)
	for range closingLooks {
		if err != nil || len(u.found) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(closingPause):
		}
		u, err = d.findUsers(ctx)
	}
	if err == nil && len(u.found) > 0 {
		err = fmt.Errorf("%w: %s: stop the programs that use it, workers, keepers and servers, and try again", ErrInUse,
			strings.Join(u.found[:min(len(u.found), 5)], "; "))
	}
	return u.notSeen, err
}

// users lists the signs of use of a deployment: channels with subscribers, and workers that have reported and not
// stopped.
type users struct{ found, notSeen []string }

func (d *Deployment) findUsers(ctx context.Context) (users, error) {
	var u users
	for address, node := range d.client.Nodes() {
		channels, err := node.Do(ctx, node.B().PubsubChannels().Pattern(d.prefix+":*").Build()).AsStrSlice()
		if err != nil && mayNot(err) {
			u.notSeen = append(u.notSeen, "the subscribers of the channels of "+address+" (ACL rule +pubsub|channels)")
			continue
		}
		if err != nil {
			return u, failed("PUBSUB CHANNELS", err)
		}
		for _, channel := range channels {
			u.found = append(u.found, "a program hears channel "+channel)
		}
	}
	workers, err := d.liveWorkers(ctx)
	for _, w := range workers {
		u.found = append(u.found, fmt.Sprintf("worker %s has reported, until %s", w.instance,
			w.until.UTC().Format(time.RFC3339)))
	}
	slices.Sort(u.found)
	u.found = slices.Compact(u.found)
	slices.Sort(u.notSeen)
	return u, err
}

// liveWorker is a worker whose last report still counts.
type liveWorker struct {
	instance string
	until    time.Time
}

func (d *Deployment) liveWorkers(ctx context.Context) ([]liveWorker, error) {
	now, err := d.now(ctx)
	if err != nil {
		return nil, err
	}
	b, directory := d.client.B(), keyspace.Partition{Family: keyspace.FlowFamily}
	since := strconv.FormatInt(now.Add(-time.Hour).UnixMilli(), 10)
	instances, err := d.client.Do(ctx,
		b.Zrangebyscore().Key(d.keys.FfxWorkerReports(directory)).Min(since).Max("+inf").Build()).AsStrSlice()
	if err != nil {
		return nil, failed("ZRANGEBYSCORE", err)
	}
	var live []liveWorker
	for _, instance := range instances {
		key := d.keys.FfxWorkerRecord(directory, enginecore.WorkerInstanceID(instance))
		record, err := d.client.Do(ctx, b.Hmget().Key(key).Field("state", "expires_at").Build()).ToArray()
		if err != nil || len(record) != 2 {
			return nil, failed("HMGET", err)
		}
		state, _ := record[0].ToString() // nothing for a record that is gone
		expires, _ := record[1].AsInt64()
		if state != "" && state != "stopped" && expires > now.UnixMilli() {
			live = append(live, liveWorker{instance, time.UnixMilli(expires)})
		}
	}
	return live, nil
}

// RemoveLiveWorkers removes the records of the workers whose last report still counts. It is for data that were copied
// while their workers ran, which do not run here.
func (d *Deployment) RemoveLiveWorkers(ctx context.Context) error {
	workers, err := d.liveWorkers(ctx)
	if err != nil {
		return err
	}
	b, directory := d.client.B(), keyspace.Partition{Family: keyspace.FlowFamily}
	for _, w := range workers {
		index := b.Zrem().Key(d.keys.FfxWorkerReports(directory)).Member(w.instance).Build()
		record := b.Unlink().Key(d.keys.FfxWorkerRecord(directory, enginecore.WorkerInstanceID(w.instance))).Build()
		for _, result := range d.client.DoMulti(ctx, index, record) {
			if err := result.Error(); err != nil {
				return failed("remove the record of worker "+w.instance, err)
			}
		}
	}
	return nil
}

// Counts are the amounts of data in a deployment.
type Counts struct {
	Partitions keyspace.Partitioning `json:"partitions"`
	// Runs are all that there are, child runs included; OpenRuns those that are not over.
	Runs      int64 `json:"runs"`
	OpenRuns  int64 `json:"open_runs"`
	Schedules int64 `json:"schedules"`
}

// Count counts the data of a deployment.
func (d *Deployment) Count(ctx context.Context) (Counts, error) {
	var c Counts
	b := d.client.B()
	stored, err := d.client.Do(ctx, b.Hgetall().Key(d.keys.ConfigPartitions()).Build()).AsIntMap()
	if err != nil {
		return c, failed("HGETALL", err)
	}
	c.Partitions = keyspace.Partitioning{
		Flow: int(stored["num_flow_partitions"]), Budget: int(stored["num_budget_partitions"]),
		Quota: int(stored["num_quota_partitions"]),
	}
	for i := range c.Partitions.Flow {
		p := keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(i)}
		schedules, err := d.client.Do(ctx, b.Scard().Key(d.keys.FfxSchedules(p)).Build()).AsInt64()
		if err == nil {
			err = d.countRuns(ctx, p, &c)
		}
		if err != nil {
			return c, failed("count of partition "+p.Tag(), err)
		}
		c.Schedules += schedules
	}
	return c, nil
}

// countRuns adds the runs of a partition, by its counts: the counts of the hour that the totals name are not in them.
func (d *Deployment) countRuns(ctx context.Context, p keyspace.Partition, c *Counts) error {
	counts := d.keys.FfxRunCounts(p)
	hour, err := d.client.Do(ctx, d.client.B().Hget().Key(counts).Field("hour").Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return nil
	} else if err != nil {
		return err
	}
	for _, key := range []string{counts, d.keys.FfxRunCountsOfHour(p, hour)} {
		fields, err := d.client.Do(ctx, d.client.B().Hgetall().Key(key).Build()).AsIntMap()
		if err != nil {
			return err
		}
		for field, runs := range fields {
			event, _, isCount := strings.Cut(strings.TrimPrefix(field, "child_"), " ")
			switch {
			case !isCount:
			case event == "started":
				c.Runs += runs
				c.OpenRuns += runs
			default:
				c.OpenRuns -= runs
			}
		}
	}
	return nil
}

// mayNot reports whether a server does not let the user do something, or does not offer it, as some that others run.
func mayNot(err error) bool {
	return strings.HasPrefix(err.Error(), "NOPERM") || strings.Contains(err.Error(), "unknown command")
}
