package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/contractmode"
	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keepertask"
	"github.com/flowfabric/flowfabric-go/runtime/auditlog"
)

// What other packages of this module get from engines and keepers, and programs do not.
func init() {
	enginelink.Attach = func(config any, link *enginelink.Link) { config.(*OpenConfig).link = link }
	enginelink.EnsureSecret = func(ctx context.Context, e any, p enginecore.Partition) error {
		engine, _ := e.(*Engine)
		if err := engine.made(); err != nil {
			return err
		}
		return engine.session.Secrets.Ensure(ctx, p)
	}
	enginelink.NamespaceOf = func(client any) (prefix, namespace string, err error) {
		c, _ := client.(*Client)
		if err := c.made(); err != nil {
			return "", "", err
		}
		return c.session.Core.Keys().Prefix(), string(c.session.Namespace), nil
	}
	enginerpc.ConnOf = func(engine any) *enginerpc.Conn {
		if e, _ := engine.(*Engine); e.made() == nil {
			return e.session.Core
		}
		return nil
	}
	auditlink.Audited = func(ctx context.Context, e any, entry auditlink.Entry, act func() error) error {
		stored := auditlog.Entry{
			Actor: entry.Actor, Action: auditlog.Action(entry.Action), Name: entry.Name, Detail: entry.Detail,
		}
		if client, is := e.(*Client); is {
			if err := client.ready(ctx); err != nil {
				return err
			}
			return client.audited(ctx, stored, func(context.Context) error { return act() })
		}
		engine, _ := e.(*Engine)
		if err := engine.made(); err != nil {
			return err
		}
		return audited(ctx, engine.session, stored, func(context.Context) error { return act() })
	}
	keepertask.TasksOf = func(keeper any) []keepertask.Task {
		if k, _ := keeper.(*Keeper); k.check() == nil {
			return k.keeper.Tasks(contractmode.ContractTasks)
		}
		return nil
	}
	keepertask.RunTask = func(ctx context.Context, keeper any, name string) (keepertask.Report, error) {
		k, _ := keeper.(*Keeper)
		if err := k.check(); err != nil {
			return keepertask.Report{Task: name}, err
		}
		return k.keeper.RunTask(ctx, name)
	}
}
