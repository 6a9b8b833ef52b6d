package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

const (
	// clusterServers is the number of servers of a cluster that the command starts.
	clusterServers = 3
	// hashSlots is the number of hash slots of a cluster.
	hashSlots = 16384
	// clusterPatience bounds how long the servers of a cluster take to find each other.
	clusterPatience = 30 * time.Second
)

// startCluster starts a cluster of Valkey servers without replicas.
func startCluster() (url string, stop func() error, err error) {
	var hosts []string
	var stops []func() error
	stop = func() error {
		var faults []error
		for _, one := range stops {
			faults = append(faults, one())
		}
		return errors.Join(faults...)
	}
	for range clusterServers {
		options := testserver.Options{Kind: testserver.Valkey, Args: []string{"cluster-enabled yes"}}
		server, err := testserver.Run(options)
		if err != nil {
			return "", nil, errors.Join(err, stop())
		}
		stops = append(stops, server.Close)
		hosts = append(hosts, strings.TrimPrefix(server.URL(), "valkey://"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
	defer cancel()
	if err := joinCluster(ctx, hosts); err != nil {
		return "", nil, errors.Join(fmt.Errorf("cluster: %w", err), stop())
	}
	return "valkey+cluster://" + strings.Join(hosts, ","), stop, nil
}

// joinCluster divides the hash slots among servers, and returns when all of them agree on that.
func joinCluster(ctx context.Context, hosts []string) error {
	clients := make([]rueidis.Client, len(hosts))
	for i, host := range hosts {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{host}, ForceSingleClient: true, DisableCache: true,
		})
		if err != nil {
			return err
		}
		defer client.Close()
		clients[i] = client
	}
	for i, client := range clients {
		first, last := i*hashSlots/len(hosts), (i+1)*hashSlots/len(hosts)-1
		commands := [][]string{
			{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
			{"CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)},
		}
		for _, other := range hosts[:i] {
			host, port, err := net.SplitHostPort(other)
			if err != nil {
				return err
			}
			commands = append(commands, []string{"CLUSTER", "MEET", host, port})
		}
		for _, words := range commands {
			if err := client.Do(ctx, client.B().Arbitrary(words...).Build()).Error(); err != nil {
				return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
			}
		}
	}
	for _, client := range clients {
		for whole := false; !whole; {
			info, err := client.Do(ctx, client.B().Arbitrary("CLUSTER", "INFO").Build()).ToString()
			if err != nil {
				return err
			}
			whole = strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", len(hosts)))
			if err := wait(ctx, settle); err != nil {
				return err
			}
		}
	}
	return nil
}
