package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// valkey is a Valkey server, with its default settings but for the durability.
type valkey struct {
	program *testserver.Program
	addr    string
}

// startValkey starts a server that flushes an append-only file as aof says, or writes nothing to disk if that is empty.
func startValkey(aof string) (*valkey, error) {
	o := testserver.Options{Kind: testserver.Valkey}
	if aof != "" {
		o.Args = []string{"appendonly yes", "appendfsync " + aof}
	}
	program, err := testserver.Run(o)
	if err != nil {
		return nil, err
	}
	return &valkey{program: program, addr: strings.TrimPrefix(program.URL(), "valkey://")}, nil
}

func (v *valkey) url() string { return v.program.URL() }

func (v *valkey) close() error { return v.program.Close() }

func (v *valkey) version(ctx context.Context) (string, error) {
	client := redis.NewClient(&redis.Options{Addr: v.addr})
	defer client.Close()
	text, err := client.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("INFO: %w", err)
	}
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(strings.TrimSpace(line), "valkey_version:"); ok {
			return "Valkey " + number, nil
		}
	}
	return "", fmt.Errorf("INFO names no version")
}
