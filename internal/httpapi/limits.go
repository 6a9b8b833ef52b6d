package httpapi

import (
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of limits.
var (
	ListLimits = call[Empty, fabrictype.Page[fabrictype.Limit]](Operation{
		Name: "list-limits", Group: "limits", Method: "GET", Path: "/limits", Right: api.View, Effect: Reads,
		Summary: "List the limits",
	})
	GetLimit = call[LimitInput, fabrictype.Limit](Operation{
		Name: "get-limit", Group: "limits", Method: "GET", Path: "/limits/{limit}", Right: api.View, Effect: Reads,
		Summary: "Show a limit; its ETag is for changes",
	})
	GetLimitUse = call[LimitUseInput, api.LimitUse](Operation{
		Name: "get-limit-use", Group: "limits", Method: "GET", Path: "/limits/{limit}/use", Right: api.View, Effect: Reads,
		Summary: "Show which nodes hold places of a limit, and which wait for one",
	})
	SetLimit = call[SetLimitInput, fabrictype.Limit](Operation{
		Name: "set-limit", Group: "limits", Method: "PUT", Path: "/limits/{limit}", Right: api.Operate, Effect: Changes,
		Summary: "Set a limit in place of the one that flows declare",
	})
	ResetLimit = call[LimitInput, Empty](Operation{
		Name: "reset-limit", Group: "limits", Method: "DELETE", Path: "/limits/{limit}",
		Right: api.Operate, Effect: Changes,
		Summary: "Return to the limit that flows declare",
	})
)

func limitOperations() []Entry {
	return []Entry{ListLimits, GetLimit, GetLimitUse, SetLimit, ResetLimit}
}

// LimitInput names the limit that an operation is about.
type LimitInput struct {
	Limit string `path:"limit" doc:"Name of the limit."`
	Key   string `query:"key" doc:"Key of a limit with keys."`
}

// SetLimitInput is a new limit.
type SetLimitInput struct {
	LimitInput
	Conditional
	Body struct{ api.LimitSettings }
}

// Operations of budgets.
var (
	ListBudgets = call[Empty, fabrictype.Page[fabrictype.Budget]](Operation{
		Name: "list-budgets", Group: "budgets", Method: "GET", Path: "/budgets", Right: api.View, Effect: Reads,
		Summary: "List the budgets",
	})
	GetBudget = call[BudgetInput, fabrictype.Budget](Operation{
		Name: "get-budget", Group: "budgets", Method: "GET", Path: "/budgets/{budget}", Right: api.View, Effect: Reads,
		Summary: "Show a budget; its ETag is for changes",
	})
	GetBudgetUse = call[BudgetUseInput, api.BudgetUse](Operation{
		Name: "get-budget-use", Group: "budgets", Method: "GET", Path: "/budgets/{budget}/use",
		Right: api.View, Effect: Reads,
		Summary: "Show which nodes have reserved parts of a budget, and which wait for it",
	})
	GetBudgetHistory = call[BudgetInput, BudgetHistory](Operation{
		Name: "get-budget-history", Group: "budgets", Method: "GET", Path: "/budgets/{budget}/history",
		Right: api.View, Effect: Reads,
		Summary: "Show how much was spent of a budget during the last hour",
	})
	SetBudget = call[SetBudgetInput, fabrictype.Budget](Operation{
		Name: "set-budget", Group: "budgets", Method: "PUT", Path: "/budgets/{budget}", Right: api.Operate, Effect: Changes,
		Summary: "Set the limits of a budget",
	})
	ResetBudget = call[BudgetInput, Empty](Operation{
		Name: "reset-budget", Group: "budgets", Method: "POST", Path: "/budgets/{budget}/reset",
		Right: api.Operate, Effect: Changes,
		Summary: "Set the spent amount of a budget to zero",
	})
	DeleteBudget = call[BudgetInput, Empty](Operation{
		Name: "delete-budget", Group: "budgets", Method: "DELETE", Path: "/budgets/{budget}",
		Right: api.Administer, Effect: Destroys,
		Summary: "Delete a budget",
	})
)

func budgetOperations() []Entry {
	return []Entry{ListBudgets, GetBudget, GetBudgetUse, GetBudgetHistory, SetBudget, ResetBudget, DeleteBudget}
}

// BudgetInput names the budget that an operation is about.
type BudgetInput struct {
	Budget string `path:"budget" doc:"Name of the budget."`
	Key    string `query:"key" doc:"Key of a shared budget with keys."`
	Flow   string `query:"flow" doc:"Flow that owns the budget."`
	Run    string `query:"run" doc:"Run that owns the budget."`
}

// NameBudget returns the input that names a budget. It is empty, and refused, for a budget whose owner is named by its
// flow id alone.
func NameBudget(name fabrictype.BudgetName) BudgetInput {
	if name.FlowID != "" && name.Run == "" {
		return BudgetInput{}
	}
	return BudgetInput{Budget: name.Name, Key: name.Key, Flow: name.Flow, Run: name.Run}
}

// SetBudgetInput has the limits of a budget.
type SetBudgetInput struct {
	BudgetInput
	Conditional
	Body api.BudgetSettings
}

// BudgetHistory is how much was spent of a budget during the last hour, or since the server began.
type BudgetHistory struct {
	Samples []api.BudgetSample `json:"samples" doc:"The oldest first; none of budgets of runs."`
}
