package enginetest

import (
	"context"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// RunKeeperTask carries out a task of keepers, as admin.Client.RunKeeperTask does.
func (b *Bench) RunKeeperTask(ctx context.Context, name string, opts ...runtime.KeeperOption) (admin.KeeperTaskReport, error) {
	return admin.New(b.Engine).RunKeeperTask(ctx, name, opts...)
}

// KeeperTasks describes the tasks of keepers, as admin.Client.KeeperTasks does.
func (b *Bench) KeeperTasks() []admin.KeeperTask { return admin.New(b.Engine).KeeperTasks() }
