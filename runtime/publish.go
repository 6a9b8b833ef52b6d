package runtime

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/catalogue"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// Definition is a *flow.Definition, whatever its types.
type Definition interface {
	Name() string
	Hash() string
	InputType() reflect.Type
	OutputType() reflect.Type
	Internal() flowgraph.Handle
}

// Publication is a flow with how it is published.
type Publication struct {
	Flow Definition
	// OmitSchemas leaves out the schemas of input and result, of types with private fields. Inputs of FlowRef.Start are
	// not checked then.
	OmitSchemas bool
	// By names the program or person that publishes; at most 256 bytes without control characters. Defaults to none.
	By string
}

// Publish publishes flows in the client's namespace: their graphs, the JSON Schemas of their inputs and results, and
// their descriptions. The entry of a name is the flow that was published last, so programs of two versions that publish
// in turn replace each other's; runs do not depend on it. Publishing an unchanged flow costs one small call and changes
// nothing. WorkerConfig.Publish does the same when a worker begins.
//
// The error joins the errors of all flows that were not published. It matches ErrInvalid for a definition that Build
// did not make and for a type without a schema, when nothing is published; ErrTooLarge for a definition above 1 MiB;
// and in contract mode ErrNotInContract.
func (c *Client) Publish(ctx context.Context, flows ...Publication) error {
	if _, err := library(ctx, c, "the catalogue of flows"); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	var faults []error
	entries := entriesOf(flows, func(item int, err error) {
		faults = append(faults, fmt.Errorf("publish: item %d: %w", item, err))
	})
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	for _, entry := range entries {
		faults = append(faults, entry.Publish(ctx, c.session))
	}
	return errors.Join(faults...)
}

// Withdraw removes the flow and its history from the catalogue. Programs that publish it again enter it again.
// Withdrawing a flow that is not published changes nothing.
func (f *FlowRef) Withdraw(ctx context.Context) error {
	store, err := library(ctx, f.client, "the catalogue of flows")
	if err == nil {
		entry := fabrictype.AuditEntry{Actor: f.client.actorName(), Action: auditlink.WithdrawFlow, Name: f.name}
		err = f.client.audited(ctx, entry, func(ctx context.Context) error {
			return catalogue.Withdraw(ctx, f.client.session, store, f.name)
		})
	}
	if err != nil {
		return fmt.Errorf("withdraw flow %q: %w", f.name, err)
	}
	return nil
}

// entriesOf returns the entries of publications, and calls fault with the number of each that has none, from 1 on.
func entriesOf(flows []Publication, fault func(item int, err error)) []catalogue.Entry {
	entries := make([]catalogue.Entry, len(flows))
	for i, p := range flows {
		var err error
		if entries[i], err = catalogue.NewEntry(p.Flow, p.OmitSchemas, p.By); err != nil {
			fault(i+1, err)
		}
	}
	return entries
}
