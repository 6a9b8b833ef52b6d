package fabrictype

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Limit is the state of a limit.
type Limit struct {
	// Name and Key identify the limit; Key is empty for a limit without keys.
	Name string `json:"name"`
	Key  string `json:"key,omitempty"`
	// AtMost, Per and AtOnce are the values that apply at present; zero for no bound.
	AtMost int      `json:"at_most,omitempty"`
	Per    Duration `json:"per,omitzero"`
	AtOnce int      `json:"at_once,omitempty"`
	// Set reports whether LimitRef.Set replaced the declaration of the flows.
	Set bool `json:"set" doc:"An operator has set it."`
	// Running is the number of executions that hold a permit, Started the number of starts within the last Per and of
	// permits that are reserved for one, and Waiting the number that wait for a permit.
	Running int `json:"running"`
	Started int `json:"started" doc:"Starts within the last per, and permits reserved for one."`
	Waiting int `json:"waiting"`
}

// BudgetName names a budget: a shared budget by Name, and Key if it has keys; the budget of a flow by Name and Flow;
// the budget of a run by Name, Flow and Run.
type BudgetName struct {
	Name string `json:"name"`
	// Key selects the budget of one key of a shared budget with flow.BudgetConfig.PerKey; empty for a budget without
	// keys.
	Key string `json:"key,omitempty"`
	// Flow and Run name the owner of a budget of a flow or of a run; empty for a shared budget.
	Flow string `json:"flow,omitempty"`
	Run  string `json:"run,omitempty"`
	// FlowID is the flow id of the run that owns the budget; empty for the budget of a flow and for a shared budget.
	// Calls accept a reference without it. They refuse one without Flow and Run, which Client.Budgets returns when the
	// run was purged and its names are not known, and one whose FlowID is not the flow id of Run.
	FlowID string `json:"flow_id,omitempty"`
}

// String returns the reference in readable form, for texts and logs.
func (r BudgetName) String() string {
	switch {
	case r.Run != "":
		return fmt.Sprintf("%q of run %s of flow %s", r.Name, r.Run, r.Flow)
	case r.FlowID != "":
		return fmt.Sprintf("%q of the run with the flow id %s", r.Name, r.FlowID)
	case r.Flow != "":
		return fmt.Sprintf("%q of flow %s", r.Name, r.Flow)
	case r.Key != "":
		return fmt.Sprintf("%q of %q", r.Name, r.Key)
	}
	return fmt.Sprintf("%q", r.Name)
}

// Budget is the state of a budget: its limits, and the amounts that are spent and reserved.
type Budget struct {
	// BudgetName refers to the budget, for all calls that take a reference.
	BudgetName
	// Effect is the flow.BudgetEffect of a hard limit.
	Effect string `json:"effect,omitempty"`
	// ResetEvery is the interval between resets and ResetsAt the time of the next one; both are zero for a budget
	// without resets.
	ResetEvery Duration  `json:"reset_every,omitzero"`
	ResetsAt   time.Time `json:"resets_at,omitzero"`
	// Set reports whether CreateBudget or SetBudget determined the limits. If it is false, the limits are those that
	// flows declare.
	Set bool `json:"set" doc:"An operator has set its limits."`
	// UsedUp describes in English why nodes that use the budget do not start; empty when they do.
	UsedUp string `json:"used_up,omitempty" doc:"Why nodes that use it do not start."`
	// Amounts are the states of the dimensions, by name.
	Amounts []BudgetAmount `json:"amounts"`
	// Breaches counts how often a hard limit began to refuse amounts, SoftBreaches how often a soft limit was exceeded,
	// and Resets the resets.
	Breaches     int `json:"breaches"`
	SoftBreaches int `json:"soft_breaches"`
	Resets       int `json:"resets"`
}

// Amount returns the state of a dimension, or the zero value when the budget does not have the dimension.
func (b Budget) Amount(dimension string) BudgetAmount {
	i := slices.IndexFunc(b.Amounts, func(a BudgetAmount) bool { return a.Dimension == dimension })
	if i < 0 {
		return BudgetAmount{}
	}
	return b.Amounts[i]
}

// BudgetAmount is the state of one dimension of a budget.
type BudgetAmount struct {
	// Budget and Key are the name and the key of the budget; Key is empty for one without. JSON omits them: there,
	// amounts are within their budget.
	Budget    string `json:"-"`
	Key       string `json:"-"`
	Dimension string `json:"dimension"`
	// Spent is the usage reported and settled since the last reset, Reserved the sum of reservations.
	Spent    int64 `json:"spent"`
	Reserved int64 `json:"reserved"`
	// Hard and Soft are the limits; 0 is none.
	Hard int64 `json:"hard,omitempty"`
	Soft int64 `json:"soft,omitempty"`
}

// Remaining is the amount that can still be used or reserved: never negative, and math.MaxInt64 without a hard limit.
func (a BudgetAmount) Remaining() int64 {
	if a.Hard == 0 {
		return math.MaxInt64
	}
	return max(0, a.Hard-a.Spent-a.Reserved)
}

// BudgetBreach reports that an attempt exceeded a limit of a budget.
type BudgetBreach struct {
	// Flow, Run, Node and Attempt identify the attempt.
	Flow    string `json:"flow"`
	Run     string `json:"run"`
	Node    string `json:"node"`
	Attempt int    `json:"attempt"`
	// Budget and Key name the budget, Dimension the dimension whose limit was exceeded.
	Budget    string `json:"budget"`
	Key       string `json:"key,omitempty"`
	Dimension string `json:"dimension"`
	// Hard reports whether the hard limit refused an amount, which is Asked. If it is false, more than the soft limit
	// has been spent.
	Hard  bool  `json:"hard"`
	Asked int64 `json:"asked,omitempty"`
	// Amount is the state of the dimension.
	Amount BudgetAmount `json:"amount"`
	// Words describe the breach in English, as the event in the run's log does.
	Words string `json:"words"`
}
