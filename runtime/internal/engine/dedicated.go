package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/rueidis"
)

// Dedicate implements rueidis.Client. Commands on the connection wait for it, as long as their contexts live, while it
// is being made; rueidis hands over one that is broken instead.
func (c pinnedReads) Dedicate() (rueidis.DedicatedClient, func()) {
	wire, release := c.Client.Dedicate()
	if c.dialer == nil {
		return wire, release
	}
	d := &dedicated{client: c.Client, DedicatedClient: wire, release: release}
	return d, d.giveBack
}

// dedicated is a connection for one user.
type dedicated struct {
	client rueidis.Client

	mu sync.Mutex
	rueidis.DedicatedClient
	release func()
	// settled says that this very connection has to stay: it has hooks, or was closed or given back.
	settled bool
}

func (d *dedicated) wire() rueidis.DedicatedClient {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.DedicatedClient
}

// settle keeps the connection from being replaced, and returns it.
func (d *dedicated) settle() (rueidis.DedicatedClient, func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled = true
	return d.DedicatedClient, d.release
}

func (d *dedicated) giveBack() {
	_, release := d.settle()
	release()
}

// Close implements rueidis.DedicatedClient.
func (d *dedicated) Close() {
	wire, _ := d.settle()
	wire.Close()
}

// SetPubSubHooks implements rueidis.DedicatedClient.
func (d *dedicated) SetPubSubHooks(hooks rueidis.PubSubHooks) <-chan error {
	wire, _ := d.settle()
	return wire.SetPubSubHooks(hooks)
}

// replace takes another connection in place of one that was not made, and reports whether it did.
func (d *dedicated) replace(ctx context.Context, err error) bool {
	if err == nil || !errors.Is(err, errConnecting) || ctx.Err() != nil {
		return false
	}
	if Pause(ctx, callWait); ctx.Err() != nil {
		return false
	}
	wire, release := d.client.Dedicate()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.settled {
		release()
		return false
	}
	d.release()
	d.DedicatedClient, d.release = wire, release
	return true
}

// Do implements rueidis.CoreClient.
func (d *dedicated) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	command = command.Pin() // it may be sent again
	for {
		result := d.wire().Do(ctx, command)
		if d.replace(ctx, result.NonRedisError()) {
			continue
		}
		if ctx.Err() != nil && errors.Is(result.NonRedisError(), errConnecting) {
			return rueidis.NewErrorResult(ctx.Err())
		}
		return result
	}
}

// DoMulti implements rueidis.CoreClient.
func (d *dedicated) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	for i := range commands {
		commands[i] = commands[i].Pin()
	}
	for {
		results := d.wire().DoMulti(ctx, slices.Clone(commands)...)
		if len(results) > 0 && d.replace(ctx, results[0].NonRedisError()) {
			continue
		}
		if len(results) > 0 && ctx.Err() != nil && errors.Is(results[0].NonRedisError(), errConnecting) {
			return failAll(commands, ctx.Err())
		}
		return results
	}
}
