package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded"
	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// openData implements enginelink.OpenData.
func openData(ctx context.Context, url string, access enginelink.Access) (*enginelink.Data, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	to, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if to.embedded {
		return openDirectory(ctx, to, access)
	}
	client, err := rueidis.NewClient(to.option)
	if err == nil {
		if err = client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
			client.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", to, enginerpc.ConnectError(err))
	}
	return &enginelink.Data{Client: client, Name: to.text, Close: func() error { client.Close(); return nil }}, nil
}

func openDirectory(ctx context.Context, at target, access enginelink.Access) (*enginelink.Data, error) {
	if at.dir == "" {
		return nil, fmt.Errorf("%w: %s is an engine in memory, whose data no other process reaches: name a directory",
			errURL, at)
	}
	// What is written here is on disk after Close, which syncs it.
	o := embedded.Options{Dir: at.dir, Fsync: embedded.FsyncEverySecond, Logger: slog.New(slog.DiscardHandler)}
	open := embedded.Open
	switch access {
	case enginelink.ReadCopy:
		open = embedded.OpenCopy
	case enginelink.Change:
		if err := checkExists(at.dir); err != nil {
			return nil, err
		}
	}
	engine, err := open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", at, at.explain(err))
	}
	client, err := rueidis.NewClient(engine.ClientOption())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", at, err), engine.Close())
	}
	return &enginelink.Data{Client: client, Name: at.text, InProcess: true, Close: func() error {
		client.Close()
		return engine.Close()
	}}, nil
}
