package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// valkey is a Valkey server that writes nothing to disk, with its default settings otherwise.
type valkey struct {
	program *testserver.Program
	addr    string
}

func startValkey() (*valkey, error) {
	program, err := testserver.Run(testserver.Options{Kind: testserver.Valkey})
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
