package main

import (
	"context"
	"time"
)

// settleTime is how long a system has no work before it is measured. FlowFabric's workers rest by then.
const settleTime = 40 * time.Second

// idle is the cost of a system without work, in percent of a processor.
type idle struct {
	Program float64 `json:"program"` // this process: client and worker
	Server  float64 `json:"server"`
}

func measureIdle(ctx context.Context, duration time.Duration) (*idle, error) {
	if err := pause(ctx, settleTime); err != nil {
		return nil, err
	}
	own, servers, err := usage()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := pause(ctx, duration); err != nil {
		return nil, err
	}
	ownAfter, serversAfter, err := usage()
	if err != nil {
		return nil, err
	}
	took := time.Since(begun)
	percent := func(used time.Duration) float64 { return 100 * used.Seconds() / took.Seconds() }
	return &idle{Program: percent(ownAfter - own), Server: percent(serversAfter - servers)}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
