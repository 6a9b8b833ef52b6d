// Command temporal runs Temporal's server as its command line does with "server start-dev": all services in one
// process, one shard, everything stored in memory by SQLite, no user interface. It prints its address and version, and
// runs until it is interrupted.
//
// It is a separate module because the server needs many other modules, which are compiled only for a comparison with
// Temporal.
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	schema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

const (
	host        = "127.0.0.1"
	clusterName = "active"
	namespace   = "default"
	// unlimited is more requests per second than there are.
	unlimited = 1_000_000
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "temporal:", err)
		os.Exit(1)
	}
}

func run() error {
	ports, err := freePorts(5)
	if err != nil {
		return err
	}
	conf, err := configuration(ports)
	if err != nil {
		return err
	}
	hosts := make(map[primitives.ServiceName]static.Hosts)
	for name, service := range conf.Services {
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(fmt.Sprintf("%s:%d", host, service.RPC.GRPCPort))
	}
	server, err := temporal.NewServer(
		temporal.WithConfig(conf), temporal.ForServices(temporal.DefaultServices), temporal.WithStaticHosts(hosts),
		temporal.WithLogger(log.NewZapLogger(log.BuildZapLogger(log.Config{Level: "fatal"}))),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper {
			return authorization.NewNoopClaimMapper()
		}),
		temporal.WithDynamicConfigClient(dynamicconfig.StaticClient{
			// As the command line sets it.
			dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): 8096,
			// A workflow's activities go to its own worker in the reply to its task, which saves a poll.
			dynamicconfig.EnableActivityEagerExecution.Key(): true,
			// By default a shard, of which this server has one, reads its queue 20 times a second: each step of a
			// workflow would take 50 ms. The other limits would not be reached here, but on a faster machine.
			dynamicconfig.TransferProcessorMaxPollRPS.Key():        unlimited,
			dynamicconfig.TransferProcessorMaxPollHostRPS.Key():    unlimited,
			dynamicconfig.FrontendRPS.Key():                        unlimited,
			dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key(): unlimited,
			dynamicconfig.MatchingRPS.Key():                        unlimited,
			dynamicconfig.HistoryRPS.Key():                         unlimited,
			dynamicconfig.FrontendPersistenceMaxQPS.Key():          unlimited,
			dynamicconfig.MatchingPersistenceMaxQPS.Key():          unlimited,
			dynamicconfig.HistoryPersistenceMaxQPS.Key():           unlimited,
		}),
	)
	if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	if err := server.Start(); err != nil {
		return err
	}
	fmt.Printf("%s:%d %s\n", host, ports[0], headers.ServerVersion)
	<-interrupted
	// Nothing that it stores outlives the process, so there is nothing to stop in order.
	return nil
}

// configuration is one server with all services.
func configuration(ports []int) (*config.Config, error) {
	frontend := fmt.Sprintf("%s:%d", host, ports[0])
	service := func(port int) config.Service {
		return config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: host}}
	}
	store := config.SQL{
		PluginName: sqlite.PluginName, DatabaseName: fmt.Sprint(os.Getpid()),
		ConnectAttributes: map[string]string{"mode": "memory", "cache": "shared"},
	}
	conf := &config.Config{
		Persistence: config.Persistence{
			DefaultStore: "memory", VisibilityStore: "memory", NumHistoryShards: 1,
			DataStores: map[string]config.DataStore{"memory": {SQL: &store}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: clusterName, CurrentClusterName: clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: frontend},
		Services: map[string]config.Service{
			string(primitives.FrontendService): service(ports[0]), string(primitives.HistoryService): service(ports[1]),
			string(primitives.MatchingService): service(ports[2]), string(primitives.WorkerService): service(ports[3]),
		},
	}
	front := conf.Services[string(primitives.FrontendService)]
	front.RPC.HTTPPort = ports[4]
	conf.Services[string(primitives.FrontendService)] = front
	conf.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: host}
	for _, state := range []*string{
		&conf.Archival.History.State, &conf.Archival.Visibility.State,
		&conf.NamespaceDefaults.Archival.History.State, &conf.NamespaceDefaults.Archival.Visibility.State,
	} {
		*state = "disabled"
	}
	own, err := schema.NewNamespaceConfig(clusterName, namespace, false, nil)
	if err != nil {
		return nil, err
	}
	return conf, schema.CreateNamespaces(&store, own)
}

// freePorts are ports that were free just now, all different.
func freePorts(count int) ([]int, error) {
	var ports []int
	for range count {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
