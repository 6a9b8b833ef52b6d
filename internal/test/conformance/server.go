package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/redis/rueidis"
)

// NewProcess returns an opener that starts a server program on a free port of
// the loopback interface, without persistence.
func NewProcess(program string) Opener {
	return func(ctx context.Context) (rueidis.Client, func(), error) {
		dir, err := os.MkdirTemp("", "conformance-")
		if err != nil {
			return nil, nil, err
		}
		port, err := freePort()
		if err != nil {
			return nil, nil, err
		}
		var output bytes.Buffer
		// Not bound to the context: release ends the process.
		cmd := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--save", "",
			"--appendonly", "no", "--dir", dir, "--loglevel", "warning")
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Start(); err != nil {
			return nil, nil, errors.Join(err, os.RemoveAll(dir))
		}
		stop := func() {
			// The data is worthless: nothing has to be shut down in order.
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_ = os.RemoveAll(dir)
		}
		client, err := connect(ctx, "127.0.0.1:"+port, 10*time.Second)
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("starting %s: %w\n%s", program, err, output.String())
		}
		return withClock(client), func() { client.Close(); stop() }, nil
	}
}

// NewAddress returns an opener for a running server. Replaying empties its
// database, so one that is not empty is refused unless flush is set.
func NewAddress(address string, flush bool) Opener {
	return func(ctx context.Context) (rueidis.Client, func(), error) {
		client, err := connect(ctx, address, time.Second)
		if err != nil {
			return nil, nil, err
		}
		s := &store{client: client}
		size, err := s.size(ctx)
		if err == nil && size > 0 && !flush {
			err = fmt.Errorf("the database at %s has %d keys, and replaying would empty it", address, size)
		}
		if err != nil {
			client.Close()
			return nil, nil, err
		}
		return withClock(client), func() {
			_ = s.do(context.WithoutCancel(ctx), "FLUSHDB").Error()
			client.Close()
		}, nil
	}
}

// withClock is a client whose library will see the time of the replay.
func withClock(client rueidis.Client) rueidis.Client {
	return &timedClient{Client: client, clock: newServerClock(client)}
}

func connect(ctx context.Context, address string, patience time.Duration) (rueidis.Client, error) {
	deadline := time.Now().Add(patience)
	for {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress:       []string{address},
			DisableCache:      true,
			ForceSingleClient: true,
		})
		if err == nil {
			return client, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // between two attempts to connect
	}
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}
