package enginetest

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// RunKeeperTask runs a keeper task, as admin.Client.RunKeeperTask does, with the zero config by default.
func (b *Bench) RunKeeperTask(ctx context.Context, name string, config ...runtime.KeeperConfig) (admin.KeeperTaskReport, error) {
	c, err := admin.New(b.Engine)
	if err != nil {
		return admin.KeeperTaskReport{}, fmt.Errorf("run keeper task: %w", err)
	}
	var only runtime.KeeperConfig
	if len(config) > 0 {
		only = config[0]
	}
	return c.RunKeeperTask(ctx, name, only)
}

// KeeperTasks describes the tasks of keepers, as admin.Client.KeeperTasks does.
func (b *Bench) KeeperTasks() []admin.KeeperTask {
	c, err := admin.New(b.Engine)
	if err != nil {
		return nil
	}
	return c.KeeperTasks()
}
