package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A start is acknowledged once a replica has the run. A start that the replica has not confirmed in time has been
// carried out all the same; repeated under the same id, it waits again. The example needs a server with a replica, so
// it is not run: package internal/test/replicationtest tests the same.
func ExampleReplication() {
	ctx := context.Background()
	f := flow.New[string, string]("order")
	flow.Return(f, flow.Waitpoint[string](f, "paid"))
	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := runtime.Open(ctx, "valkey+sentinel://10.0.0.1:26379,10.0.0.2:26379/primary", runtime.OpenConfig{
		Replication: runtime.Replication{Replicas: 1, Timeout: time.Second},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	client, err := runtime.NewClient(engine)
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		run, err := runtime.Start(ctx, client, def, "order 17", runtime.WithID("order-17"))
		if errors.Is(err, enginecore.ErrNotReplicated) {
			continue // it is on the primary, and on too few replicas: wait for them again
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(run.ID(), "survives the loss of the primary")
		return
	}
}
