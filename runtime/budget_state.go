package runtime

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// checkBudgetRef returns the fault of a reference in a namespace.
func checkBudgetRef(r fabrictype.BudgetName, namespace keyspace.Namespace) error {
	err := activityspec.CheckName(r.Name)
	switch {
	case err != nil:
	case r.Key != "" && r.Flow != "":
		err = fmt.Errorf("the Key %.80q: must be empty for a budget of a flow or of a run", r.Key)
	case r.Run != "" && r.Flow == "":
		err = fmt.Errorf("the Run %.80q: Flow must be set, too", r.Run)
	case r.FlowID != "" && r.Run == "":
		err = fmt.Errorf("the FlowID %.80q: Flow and Run must be set, too", r.FlowID)
	case r.FlowID != "" && r.FlowID != string(keyspace.FlowIDFor(namespace, r.Flow, r.Run)):
		err = fmt.Errorf("the FlowID %.80q: is not that of run %s of flow %s", r.FlowID, r.Run, r.Flow)
	case len(r.Key) > submit.MaxLimitKey:
		err = fmt.Errorf("the Key has %d bytes, at most %d are allowed", len(r.Key), submit.MaxLimitKey)
	default:
		return nil
	}
	return invalid("budget reference: %w", err)
}
