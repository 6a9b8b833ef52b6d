package runtime

import (
	"time"

	"github.com/flowfabric/flowfabric-go/runtime/internal/contractmode"
)

// ContractOnly makes the engine use nothing but the ff_* functions of the FlowFabric contract, version 15, against
// whatever library of that version the server already has; it is neither loaded nor replaced. So flows run on a stock
// FlowFabric server, beside its own programs. Open fails with enginecore.ErrNoLibrary or ErrIncompatibleLibrary where the
// library is missing or of another version.
//
// Each step is then a call of its own: runs are slower, and what one composite call does at once can be seen half done in
// between. Everything is repeated until it is done. Start refuses a flow that the contract cannot serve, with
// ErrNotInContract. In this process (embedded) the library is ours without its composite calls.
func ContractOnly() OpenOption { return func(c *openConfig) { c.core.ContractOnly = true } }

// PollInterval is how often workers and keepers in contract mode look for what other programs have made ready or due: of
// what this library does, its own learn at once. Defaults to 1 s, at least 10 ms. Without ContractOnly it means nothing.
func PollInterval(d time.Duration) OpenOption { return func(c *openConfig) { c.contract.Poll = d } }

// ReconcileInterval is how often a keeper in contract mode looks for steps that nobody has taken, because a process ended
// between two calls or another program ended an execution. Defaults to 5 s, at least 10 ms. Without ContractOnly it means
// nothing.
func ReconcileInterval(d time.Duration) OpenOption {
	return func(c *openConfig) { c.contract.Reconcile = d }
}

// Defaults of PollInterval and ReconcileInterval.
const (
	DefaultPollInterval      = contractmode.DefaultPollInterval
	DefaultReconcileInterval = contractmode.DefaultReconcileInterval
)
